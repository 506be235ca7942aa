"""Snapshot rows whose values are rows alone: see ``cdc.columnar.snapshot``. Pure."""

from __future__ import annotations

from cdc.columnar.arrays import texts_of
from cdc.columnar.copy_text import copied_columns, copied_rows
from cdc.columnar.json_objects import Piece, has_null, joined, json_object
from cdc.columnar.keys import KeyGuards
from cdc.columnar.snapshot import MOST_BYTES, SNAPSHOT_MARKERS
from cdc.columnar.values import column_of_table
from cdc.events.codes import SNAPSHOT, quoted
from cdc.events.envelope import SourceContext, Transaction, clock, text
from cdc.events.flat.row_encoder import FlatEncoder
from cdc.events.flat.row_schema import extra_fields
from cdc.events.formats.avro_writer import avro_writer
from cdc.events.formats.packing import Packing
from cdc.events.keys.exactness import noted
from cdc.events.records import Header
from cdc.events.rows import key_head, required_columns
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation

_READ = quoted(SNAPSHOT)
Encoded = tuple[list[bytes] | list[None], list[bytes]]


class FlatSnapshotEncoder:
    """What ``SnapshotEncoder`` is for events. With a ``packing`` rows are written one by one."""

    __slots__ = (
        "_columns",
        "_end",
        "_guards",
        "_heads",
        "_key",
        "_key_end",
        "_key_head",
        "_lsn",
        "_names",
        "_packing",
        "_read_us",
        "_required",
        "_rows",
        "_tails",
        "headers",
    )

    def __init__(
        self,
        relation: Relation,
        context: SourceContext,
        lsn: int,
        read_us: int,
        packing: Packing | None,
    ) -> None:
        form = context.form
        self._lsn, self._read_us, self._packing = lsn, read_us, packing
        self._columns = [
            column_of_table(column, form, noted(relation, column, form, context.unheld))
            for column in relation.columns
        ]
        names = [column.name for column in relation.columns]
        self._names = [text(name) for name in names]
        self._key = [names.index(name) for name in relation.key]
        self._key_head = key_head(relation, form, context.name)
        self._guards = KeyGuards(relation, form)
        self._end = b"}" if form.wrapped else b""
        place = form.place(context.name, relation.schema, relation.table)
        self._key_end = place.key_tail + b"}" + self._end
        self._required = required_columns(relation, form)
        self._rows = FlatEncoder(relation, context)
        self._heads: dict[bool, bytes] = {}
        self._tails: dict[str, bytes] = {}
        self.headers: dict[str, list[Header]] = {}
        """Those that ``add.headers`` asks for, by what the row is marked as."""
        fields = tuple((one.name, one.schema) for one in extra_fields(form))
        write = avro_writer(Schema("struct", fields=fields)) if form.format == "avro" else None
        for marker in SNAPSHOT_MARKERS[::-1]:  # rows are marked true, the first of these
            self._rows.begin(Transaction(lsn, read_us, None, None), marker)
            for relaxed in (True, False):
                around = self._rows.around(_READ, lsn, clock(read_us), relaxed=relaxed)
                self._heads[relaxed], self._tails[marker] = around
            self.headers[marker] = self._rows.headers(_READ, lsn, 0, clock(read_us))
            if write is not None:
                self._tails[marker] = write(self._rows.extra(_READ, lsn, clock(read_us)))

    def encode(self, copied: bytes, rows: int) -> Encoded:
        """See ``SnapshotEncoder``."""
        return self._by_column(copied, rows) or self._one_by_one(copied, rows)

    def marked(self, value: bytes, marker: str) -> bytes:
        """See ``SnapshotEncoder``."""
        return value.removesuffix(self._tails["true"]) + self._tails[marker]

    def _by_column(self, copied: bytes, rows: int) -> Encoded | None:
        if len(copied) > MOST_BYTES or self._packing is not None or not self._columns:
            return None
        columns = copied_columns(copied, rows, len(self._columns))
        if not self._guards.hold(columns):
            return None
        cells = [encode(column) for encode, column in zip(self._columns, columns, strict=True)]
        if any(has_null(cells[i]) for i in self._required):
            return None
        row: list[Piece] = json_object(self._names, cells)[:-1]
        values = texts_of(joined([self._heads[False], *row, self._tails["true"]], rows))
        if not self._key:
            return [None] * rows, values
        key = json_object([self._names[i] for i in self._key], [cells[i] for i in self._key])
        return texts_of(joined([self._key_head, *key[:-1], self._key_end], rows)), values

    def _one_by_one(self, copied: bytes, rows: int) -> Encoded:
        keys, values, packing = list[bytes](), list[bytes](), self._packing
        encoder, closing = self._rows, clock(self._read_us)
        for row in copied_rows(copied, len(self._columns)):
            key, relaxed = encoder.rows.key(row), encoder.is_relaxed(None, row)
            image = encoder.rows.row(row)
            value = encoder.value(b"null", image, _READ, self._lsn, 0, closing, relaxed=relaxed)
            values.append(value if packing is None else packing.value(value))
            if key is not None:
                keys.append(key if packing is None else packing.key(key))
        return keys or [None] * rows, values
