"""Columns of JSON joined to keys and values: row by row, ``cdc.events.envelope`` does it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from cdc.columnar.arrays import Ints, Mask, binary, booleans, decimals, integers, literal
from cdc.columnar.json_objects import Piece, has_null, joined, json_object
from cdc.columnar.keys import KeyGuards
from cdc.columnar.tuples import Column
from cdc.columnar.values import column_of_table
from cdc.events.codes import CREATE, DELETE, UPDATE, quoted
from cdc.events.envelope import (
    SourceContext,
    Transaction,
    event_heads,
    nothing_unchanged,
    number,
    origin_name,
    previous_end,
    source_literals,
    text,
)
from cdc.events.formats.packing import Packing
from cdc.events.keys.exactness import noted
from cdc.events.rows import key_head, required_columns
from cdc.protocol.relation import Relation

_ROW_FIRST: Final = {False: b'{"before":null,"after":', True: b'{"before":'}
_ROW_LAST: Final = {False: b',"source":', True: b',"after":null,"source":'}


class Transactions(NamedTuple):
    """Transactions in order, one element each. ``previous_end`` is -1 where it is not known.

    Only ``first`` may have an origin: one that is named in the stretch itself is not plain.
    """

    first: Transaction
    commit_lsn: Ints
    commit_us: Ints
    xid: Ints
    previous_end: Ints


@dataclass(frozen=True, slots=True)
class Stamps:
    """Transactions as events name them: each field the same text for all, or an Arrow array."""

    ts_ms: Piece
    previous: Piece
    ts_us: Piece
    xid: Piece
    origin: Piece
    origin_lsn: Piece
    commit_lsn: Piece

    @classmethod
    def of(cls, transactions: Transactions) -> Stamps:
        """One element each."""
        first, more = transactions.first, len(transactions.commit_lsn) - 1
        known = transactions.previous_end
        previous = joined([b'\\"', decimals(known), b'\\"'], len(known))
        origin: Piece = b"null"
        origin_lsn: Piece = b"null"
        if first.origin is not None:
            origin = binary([origin_name(first), *[b"null"] * more])
            origin_lsn = binary([number(first.origin_lsn), *[b"null"] * more])
        return cls(
            decimals(transactions.commit_us // 1000),
            pc.if_else(booleans(known >= 0), previous, literal(previous_end(None))),
            decimals(transactions.commit_us),
            decimals(transactions.xid),
            origin,
            origin_lsn,
            decimals(transactions.commit_lsn),
        )

    def of_rows(self, transaction: Ints) -> Stamps:
        """One element a row, or one text where all rows are of one transaction."""
        return Stamps(*picked([getattr(self, name) for name in self.__slots__], transaction))


def picked(fields: Sequence[Piece], transaction: Ints) -> list[Piece]:
    """What each row has of fields with one element a transaction, ``transaction`` being its index:
    one element a row, or one text where all rows are of one transaction."""
    chosen, count = integers(transaction), len(transaction)
    first, last = int(transaction[0]), int(transaction[-1])
    one_each = count == last - first + 1 and bool((np.diff(transaction) == 1).all())

    def of(field: Piece) -> Piece:
        if isinstance(field, bytes):
            return field
        if first == last:
            return field[first].as_py()
        return field.slice(first, count) if one_each else field.take(chosen)

    return list(map(of, fields))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table that are written in one way: all of them deletes, or none.

    ``transaction`` is the index in ``Stamps``; it never goes down.
    """

    columns: list[Column]
    deletes: bool
    updates: Mask
    transaction: Ints
    lsn: Ints
    ordinal: Ints


class TableEncoder:
    """Events of one table version, many at once."""

    __slots__ = (
        "_encode",
        "_end",
        "_guards",
        "_head",
        "_key",
        "_key_end",
        "_key_head",
        "_key_names",
        "_literals",
        "_names",
        "_nothing_unchanged",
        "_required",
        "_required_of_old",
        "_schema_id",
    )

    def __init__(
        self, relation: Relation, context: SourceContext, packing: Packing | None = None
    ) -> None:
        names, form = [column.name for column in relation.columns], context.form
        self._encode = [
            column_of_table(column, form, noted(relation, column, form, context.unheld))
            for column in relation.columns
        ]
        self._names = [text(name) for name in names]
        self._key = [names.index(name) for name in relation.key]
        self._key_names = [text(name) for name in relation.key]
        self._guards = KeyGuards(relation, form)
        self._literals = source_literals(context, relation.schema, relation.table)
        self._schema_id = b',"schema_id":%b' % text(relation.schema_id())
        self._nothing_unchanged = nothing_unchanged(form)
        self._head, _ = event_heads(relation, context)
        self._key_head = key_head(relation, form, context.name)
        if packing is not None:
            self._head, self._key_head = packing.value_head, packing.key_head
        self._end = b"}" if form.wrapped else b""
        place = form.place(context.name, relation.schema, relation.table)
        self._key_end = place.key_tail + b"}" + self._end
        self._required = required_columns(relation, form)
        self._required_of_old = self._required if relation.replica_identity == "f" else []

    def encode(self, rows: Rows, stamps: Stamps, closing: bytes) -> tuple[Any, Any] | None:
        """Keys (None without a key) and values, Arrow arrays of binary with one element a row. None
        when a row has null where the schema lets none by: it gets another one; and when a key does
        not hold its values.

        Raises ``ProtocolError`` for a value that does not have PostgreSQL's text form.
        """
        if not self._guards.hold(rows.columns):
            return None
        cells = [encode(column) for encode, column in zip(self._encode, rows.columns, strict=True)]
        required = self._required_of_old if rows.deletes else self._required
        if any(has_null(cells[i]) for i in required):
            return None
        count = len(rows.ordinal)
        values = joined(
            [
                self._head + _ROW_FIRST[rows.deletes],
                *json_object(self._names, cells),
                _ROW_LAST[rows.deletes],
                *self._source(rows, stamps.of_rows(rows.transaction)),
                self._schema_id,
                self._unchanged(rows.columns),
                b'},"transaction":null,"op":',
                _ops(rows),
                b"," + closing + self._end,
            ],
            count,
        )
        if not self._key:
            return None, values
        key = json_object(self._key_names, [cells[i] for i in self._key])
        return joined([self._key_head, *key[:-1], self._key_end], count), values

    def refuses(self, rows: Rows) -> bool:
        """Whether values that were not sent have to be found first: all of a new row's, and a
        key's."""
        return lacks_values(rows, self._key)

    def _unchanged(self, columns: Sequence[Column]) -> Piece:
        """The field that names a row's unchanged columns; of few combinations each is formed."""
        unsent = unsent_columns(columns)
        if not unsent:
            return self._nothing_unchanged
        masks = np.stack(list(unsent.values()), axis=1)
        combinations, of_row = np.unique(masks, axis=0, return_inverse=True)
        texts = []
        for combination in combinations:
            names = [self._names[i] for i, on in zip(unsent, combination, strict=True) if on]
            told = b',"unchanged":[%b]' % b",".join(names)
            texts.append(told if names else self._nothing_unchanged)
        return binary(texts).take(integers(of_row.ravel()))

    def _source(self, rows: Rows, stamps: Stamps) -> list[Piece]:
        says, lsn = self._literals, decimals(rows.lsn)
        fields: list[tuple[bytes, Piece]] = [
            (says.ts_ms, stamps.ts_ms),
            (says.previous, stamps.previous),
            (says.lsn_in_sequence, lsn),
            (says.ts_us, stamps.ts_us),
            (says.ts_ns, stamps.ts_us),
            (b"000" + says.xid, stamps.xid),
            (says.lsn, lsn),
            (says.origin, stamps.origin),
            (says.origin_lsn, stamps.origin_lsn),
            (says.commit_lsn, stamps.commit_lsn),
            (says.ordinal, _same_or_each(rows.ordinal)),
        ]
        return [piece for field in fields for piece in field]


def lacks_values(rows: Rows, key: Sequence[int]) -> bool:
    """See ``TableEncoder.refuses``."""
    unsent = unsent_columns(rows.columns)
    new = any((mask & ~rows.updates).any() for mask in unsent.values())
    return new or not unsent.keys().isdisjoint(key)


def _same_or_each(numbers: Ints) -> Piece:
    """One text where all numbers are the same, as with one row a transaction."""
    return b"%d" % numbers[0] if (numbers == numbers[0]).all() else decimals(numbers)


def unsent_columns(columns: Sequence[Column]) -> dict[int, Mask]:
    """The columns of which values were not sent, with the rows that lack them."""
    return {i: c.unchanged for i, c in enumerate(columns) if c.unchanged is not None}


def _ops(rows: Rows) -> Piece:
    if rows.deletes:
        return quoted(DELETE)
    if rows.updates.all():
        return quoted(UPDATE)
    if not rows.updates.any():
        return quoted(CREATE)
    create, update = (literal(quoted(op)) for op in (CREATE, UPDATE))
    return pc.if_else(booleans(rows.updates), update, create)
