"""Events of snapshot rows, from whole blocks of COPY text. Pure.

``cdc.events.envelope.ChangeEncoder`` says how such an event is written: here one is formed, and
cut where the row goes.
"""

from __future__ import annotations

from typing import Final

from cdc.columnar.arrays import texts_of
from cdc.columnar.copy_text import copied_columns, copied_rows
from cdc.columnar.json_objects import has_null, joined, json_object
from cdc.columnar.keys import KeyGuards
from cdc.columnar.values import column_of_table
from cdc.events.codes import SNAPSHOT, quoted
from cdc.events.envelope import ChangeEncoder, SourceContext, Transaction, clock, text
from cdc.events.keys.exactness import noted
from cdc.events.rows import key_head, required_columns
from cdc.protocol.relation import Relation

SNAPSHOT_MARKERS: Final = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
)
MOST_BYTES: Final = 256 << 20
"""Arrow's offsets have 31 bits, and JSON may be six times its text; of a block no more than one
row is that large."""
_ROW: Final = b"\0"
"""Stands for a row in an event that is yet to be cut: no JSON holds it."""


class SnapshotEncoder:
    """Rows read in a snapshot at one LSN: ``op: r``, position ``(lsn, 0)``, marked ``true``."""

    __slots__ = (
        "_encode",
        "_end",
        "_events",
        "_guards",
        "_heads",
        "_key",
        "_key_end",
        "_key_head",
        "_key_names",
        "_names",
        "_required",
        "_tails",
    )

    def __init__(self, relation: Relation, context: SourceContext, lsn: int, read_us: int) -> None:
        names, form = [column.name for column in relation.columns], context.form
        self._encode = [
            column_of_table(column, form, noted(relation, column, form, context.unheld))
            for column in relation.columns
        ]
        self._names = [text(name) for name in names]
        self._key = [names.index(name) for name in relation.key]
        self._key_names = [text(name) for name in relation.key]
        self._guards = KeyGuards(relation, form)
        self._key_head = key_head(relation, form, context.name)
        self._end = b"}" if form.wrapped else b""
        place = form.place(context.name, relation.schema, relation.table)
        self._key_end = place.key_tail + b"}" + self._end
        self._required = required_columns(relation, form)
        self._heads: dict[bool, bytes] = {}
        self._tails: dict[str, bytes] = {}
        events = self._events = ChangeEncoder(relation, context)
        for marker in SNAPSHOT_MARKERS:
            events.begin(Transaction(lsn, read_us, None, None), marker)
            for relaxed in (True, False):
                event = events.value(
                    b"null", _ROW, quoted(SNAPSHOT), lsn, 0, clock(read_us), relaxed=relaxed
                )
                self._heads[relaxed], _, self._tails[marker] = event.partition(_ROW)

    def encode(self, copied: bytes, rows: int) -> tuple[list[bytes] | list[None], list[bytes]]:
        """Keys and values of ``rows`` rows, given as COPY's lines.

        Raises ``ProtocolError`` for what COPY does not write.
        """
        return self.by_column(copied, rows) or self._one_by_one(copied, rows)

    def by_column(
        self, copied: bytes, rows: int
    ) -> tuple[list[bytes] | list[None], list[bytes]] | None:
        """``encode`` of rows that Arrow can hold, and that have no null in a column that the table
        has as NOT NULL by now, nor a key that does not hold its values; None of others."""
        if len(copied) > MOST_BYTES:
            return None
        columns = copied_columns(copied, rows, len(self._encode))
        if not self._guards.hold(columns):
            return None
        cells = [encode(column) for encode, column in zip(self._encode, columns, strict=True)]
        if any(has_null(cells[i]) for i in self._required):
            return None
        row = json_object(self._names, cells)
        values = texts_of(joined([self._heads[False], *row, self._tails["true"]], rows))
        if not self._key:
            return [None] * rows, values
        key = json_object(self._key_names, [cells[i] for i in self._key])
        return texts_of(joined([self._key_head, *key[:-1], self._key_end], rows)), values

    def _one_by_one(self, copied: bytes, rows: int) -> tuple[list[bytes] | list[None], list[bytes]]:
        """The same without Arrow."""
        keys, values = list[bytes](), list[bytes]()
        for row in copied_rows(copied, len(self._encode)):
            if (key := self._events.rows.key(row)) is not None:
                keys.append(key)
            head = self._heads[self._events.is_relaxed(None, row)]
            values.append(b"".join((head, self._events.rows.row(row), self._tails["true"])))
        return keys or [None] * rows, values

    def tail(self, marker: str) -> bytes:
        """What follows a row in an event that is marked so."""
        return self._tails[marker]

    def marked(self, value: bytes, marker: str) -> bytes:
        """The same event, marked as one of ``SNAPSHOT_MARKERS``."""
        return value.removesuffix(self._tails["true"]) + self._tails[marker]
