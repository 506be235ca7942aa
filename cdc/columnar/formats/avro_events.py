"""Events of one table version as Avro, many at once: as ``cdc.columnar.events`` has JSON. Pure.

The order is that of ``cdc.events.schemas.event_schemas``; names stand in the schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import orjson
import pyarrow.compute as pc

from cdc.columnar.arrays import Ints, Mask, binary, booleans, decimals, integers, literal, sizes_of
from cdc.columnar.events import Rows, Transactions, lacks_values, picked, unsent_columns
from cdc.columnar.formats.avro_cells import Cells, cells_of, numbers
from cdc.columnar.formats.contents import Content, contents_of
from cdc.columnar.json_objects import Piece, joined
from cdc.columnar.keys import KeyGuards
from cdc.columnar.tuples import Column
from cdc.events.codes import CREATE, DELETE, UPDATE
from cdc.events.envelope import SourceContext
from cdc.events.formats.avro_writer import NULL, PRESENT, octets, value_writer
from cdc.events.formats.packing import Packing, packed_schema
from cdc.events.keys.exactness import noted
from cdc.events.schemas.event_schemas import SOURCE, key_schema
from cdc.events.schemas.placeholders import placeholder
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation

_STREAMED: Final = "false"


@dataclass(frozen=True, slots=True)
class AvroStamps:
    """Transactions as events name them: each field the same bytes for all, or an Arrow array.
    ``previous`` is text of ``sequence``."""

    ts_ms: Piece
    previous: Piece
    ts_us: Piece
    ts_ns: Piece
    xid: Piece
    origin: Piece
    origin_lsn: Piece
    commit_lsn: Piece

    @classmethod
    def of(cls, transactions: Transactions) -> AvroStamps:
        """One element each."""
        first, more = transactions.first, len(transactions.commit_lsn) - 1
        known = transactions.previous_end
        previous = joined([b'["', decimals(known), b'","'], len(known))
        origin: Piece = NULL
        origin_lsn: Piece = NULL
        if first.origin is not None:
            none = [NULL] * more
            origin = binary([PRESENT + octets(first.origin.encode()), *none])
            origin_lsn = binary([_NUMBER(first.origin_lsn), *none])
        return cls(
            numbers(transactions.commit_us // 1000),
            pc.if_else(booleans(known >= 0), previous, literal(b'[null,"')),
            numbers(transactions.commit_us, PRESENT),
            numbers(transactions.commit_us * 1000, PRESENT),
            numbers(transactions.xid, PRESENT),
            origin,
            origin_lsn,
            numbers(transactions.commit_lsn, PRESENT),
        )

    def of_rows(self, transaction: Ints) -> AvroStamps:
        """One element a row, or the same bytes where all rows are of one transaction."""
        return AvroStamps(*picked([getattr(self, name) for name in self.__slots__], transaction))


_NUMBER: Final = value_writer(dict(SOURCE.fields)["lsn"])
_UNCHANGED: Final = value_writer(dict(SOURCE.fields)["unchanged"])


class AvroRows:
    """Rows and keys of one table version, as its events have them."""

    __slots__ = (
        "_cells",
        "_contents",
        "_guards",
        "_key",
        "_key_cells",
        "_key_head",
        "_key_tail",
    )

    def __init__(self, relation: Relation, context: SourceContext, packing: Packing) -> None:
        form = context.form
        names = [column.name for column in relation.columns]
        unsent = [placeholder(column, form) for column in relation.columns]
        event = dict(packed_schema(relation, context.name, form).fields)
        self._contents = [
            contents_of(column, form, noted(relation, column, form, context.unheld))
            for column in relation.columns
        ]
        self._cells = _cells(event["after"], unsent)
        self._key = [names.index(name) for name in relation.key]
        keys = key_schema(relation, context.name, form)
        of_columns = replace(keys, fields=keys.fields[: len(self._key)])
        self._key_cells = _cells(of_columns, [unsent[i] for i in self._key])
        place = form.place(context.name, relation.schema, relation.table)
        self._key_tail = octets(place.identifier.encode()) if place.key_field else b""
        self._key_head = packing.key_head
        self._guards = KeyGuards(relation, form)

    @property
    def key_columns(self) -> list[int]:
        """Where the key's columns stand in a row."""
        return self._key

    def encode(self, columns: Sequence[Column], rows: int) -> tuple[Any, list[Piece]] | None:
        """Keys (None without a key) and the pieces of images. None when a key has null where its
        schema lets none by, or does not hold its values.

        Raises ``ProtocolError`` for a value that does not have PostgreSQL's text form.
        """
        if not self._guards.hold(columns):
            return None
        contents = [
            read(column.values) if len(column.values) else None
            for read, column in zip(self._contents, columns, strict=True)
        ]
        row = _row(self._cells, columns, contents)
        if row is None or not self._key:
            return None if row is None else (None, row)
        of_key = [columns[i] for i in self._key], [contents[i] for i in self._key]
        key = _row(self._key_cells, *of_key)
        return None if key is None else (joined([self._key_head, *key, self._key_tail], rows), row)


class AvroTableEncoder:
    """Events of one table version, many at once."""

    __slots__ = ("_head", "_literals", "_names", "_rows", "_schema_id")

    def __init__(self, relation: Relation, context: SourceContext, packing: Packing) -> None:
        self._rows = AvroRows(relation, context, packing)
        self._head = packing.value_head
        self._names = [column.name for column in relation.columns]
        self._schema_id = PRESENT + octets(relation.schema_id().encode())
        text = {
            "version": context.version,
            "connector": "postgresql",
            "name": context.name,
            "snapshot": _STREAMED,
            "db": context.database,
            "schema": relation.schema,
            "table": relation.table,
        }
        of = dict(SOURCE.fields)
        self._literals = {name: value_writer(of[name])(value) for name, value in text.items()}

    def encode(self, rows: Rows, stamps: AvroStamps, closing: bytes) -> tuple[Any, Any] | None:
        """See ``cdc.columnar.events.TableEncoder``."""
        count = len(rows.ordinal)
        made = self._rows.encode(rows.columns, count)
        if made is None:
            return None
        keys, row = made
        images = [PRESENT, *row, NULL] if rows.deletes else [NULL, PRESENT, *row]
        source = self._source(rows, stamps.of_rows(rows.transaction), count)
        clock = orjson.loads(b"{" + closing)
        closed = b"".join(_NUMBER(clock[name]) for name in ("ts_ms", "ts_us", "ts_ns"))
        pieces = [self._head, *images, *source, self._unchanged(rows.columns), NULL, _ops(rows)]
        return keys, joined([*pieces, closed], count)

    def refuses(self, rows: Rows) -> bool:
        """See ``cdc.columnar.events.TableEncoder``."""
        return lacks_values(rows, self._rows.key_columns)

    def _source(self, rows: Rows, stamps: AvroStamps, count: int) -> list[Piece]:
        says, lsn = self._literals, numbers(rows.lsn, PRESENT)
        sequence = joined([stamps.previous, decimals(rows.lsn), b'"]'], count)
        return [
            says["version"] + says["connector"] + says["name"],
            stamps.ts_ms,
            says["snapshot"] + says["db"],
            numbers(sizes_of(sequence), PRESENT),
            sequence,
            stamps.ts_us,
            stamps.ts_ns,
            says["schema"] + says["table"],
            stamps.xid,
            lsn,
            NULL,
            stamps.origin,
            stamps.origin_lsn,
            stamps.commit_lsn,
            _same_or_each(rows.ordinal),
            self._schema_id,
        ]

    def _unchanged(self, columns: Sequence[Column]) -> Piece:
        """The names of a row's unchanged columns; of few combinations each is formed."""
        unsent = unsent_columns(columns)
        if not unsent:
            return NULL
        masks = np.stack(list(unsent.values()), axis=1)
        combinations, of_row = np.unique(masks, axis=0, return_inverse=True)
        told = []
        for combination in combinations:
            names = [self._names[i] for i, on in zip(unsent, combination, strict=True) if on]
            told.append(_UNCHANGED(names or None))
        return binary(told).take(integers(of_row.ravel()))


def _cells(struct: Schema, placeholders: Sequence[bytes]) -> list[Cells]:
    pairs = zip(struct.fields, placeholders, strict=True)
    return [cells_of(of, unsent) for (_, of), unsent in pairs]


def _row(
    cells: Sequence[Cells], columns: Sequence[Column], contents: Sequence[Content | None]
) -> list[Piece] | None:
    pieces: list[Piece] = []
    for encode, column, content in zip(cells, columns, contents, strict=True):
        if (found := encode(column, content)) is None:
            return None
        pieces += found
    return pieces


def _same_or_each(ordinals: Ints) -> Piece:
    """The same bytes where all numbers are the same, as with one row a transaction."""
    if (ordinals == ordinals[0]).all():
        return _NUMBER(int(ordinals[0]))
    return numbers(ordinals, PRESENT)


def _ops(rows: Rows) -> Piece:
    if rows.deletes:
        return octets(DELETE.encode())
    updates: Mask = rows.updates
    create, update = (octets(op.encode()) for op in (CREATE, UPDATE))
    if updates.all():
        return update
    if not updates.any():
        return create
    return pc.if_else(booleans(updates), literal(update), literal(create))
