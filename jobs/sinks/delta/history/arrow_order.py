"""The changes of a batch put in order with what a table holds, in Arrow. Pure.

It means what ``jobs.sinks.delta.history.spark_order.in_order`` means, which has the rules; here for
batches that one process holds. Values are never looked at, but for keys: each change names the rows
that its values are in, so they stay as Arrow has them, whatever their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cdc.events.codes import DELETE, TRUNCATE
from cdc.lsn import Position
from jobs.sinks.arrow import python_values
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, OP, ORDINAL, UNCHANGED
from jobs.sinks.delta.history.spark_order import HELD, LIVE

Key = tuple[Any, ...]
BESIDE: Final = (
    pa.field(COMMIT_LSN, pa.int64()),
    pa.field(ORDINAL, pa.int64()),
    pa.field(COMMITTED_AT, pa.timestamp("us", "UTC")),
    pa.field(OP, pa.string()),
    pa.field(UNCHANGED, pa.list_(pa.string())),
    pa.field(LIVE, pa.bool_()),
    pa.field(HELD, pa.bool_()),
)
"""The columns of ``in_order``'s rows behind those of the view."""


@dataclass(slots=True)
class Change:
    """A change of one key. ``row``: where in the rows it is; ``values``: where those are that it
    left unchanged, None where the value is null."""

    row: int
    at: Position
    op: str
    live: bool
    """Whether the row is there from this change on."""
    held: bool
    """Whether the table has this change."""
    unchanged: tuple[str, ...] = ()
    was_live: bool = False
    """Whether the row was there before it."""
    next: Change | None = None
    """The change that follows."""
    values: dict[str, int | None] | None = None
    unknown: bool = False
    """Whether a value is kept that neither the batch nor the table has."""


class Ordered:
    """Rows and the changes that they are: of each key in order, each once."""

    def __init__(self, rows: pa.Table, changes: list[Change]) -> None:
        self._rows, self.changes = rows, changes

    def lacks_values(self) -> bool:
        """Whether a value is kept that nobody has."""
        return any(change.unknown for change in self.changes)

    def column(self, name: str, of: Sequence[Change]) -> pa.ChunkedArray:
        """A column of some changes, with the values that they left unchanged."""
        places = [
            change.row if change.values is None else change.values.get(name, change.row)
            for change in of
        ]
        return self._rows.column(name).take(pa.array(places, pa.int64()))

    def next(self, name: str, of: Sequence[Change]) -> pa.ChunkedArray:
        """A column of the changes that follow, null at the last one."""
        places = [change.next.row if change.next else None for change in of]
        return self._rows.column(name).take(pa.array(places, pa.int64()))


def as_columns(schema: pa.Schema, rows: pa.Table, **columns: Any) -> pa.Table:
    """Rows with these columns: null where they have none."""
    found = {name: rows.column(name) for name in rows.column_names} | columns
    arrays = [
        found[field.name].cast(field.type)
        if field.name in found
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(arrays, schema)


def keys_of(rows: pa.Table, key: Sequence[str]) -> list[Key]:
    """The key of each row; equal ones are equal to Python."""
    return list(zip(*(python_values(rows.column(name)) for name in key), strict=True))


def in_order(rows: pa.Table, key: Sequence[str], truncates: pa.Table) -> Ordered:
    """``rows``: the view's columns and ``BESIDE``, of the batch and of the table. ``truncates`` has
    the position and the time of each TRUNCATE of the batch: a change of every key there is."""
    keys = keys_of(rows, key)
    if len(truncates):
        first = list({of: row for row, of in reversed(list(enumerate(keys)))}.values())
        for number in range(len(truncates)):
            rows = pa.concat_tables([rows, _truncated(rows, key, first, truncates, number)])
            keys += [keys[row] for row in first]
    rows = rows.combine_chunks()
    ordered: list[Change] = []
    names = {*rows.column_names[: -len(BESIDE)]} - {*key}
    for changes in _by_key(keys, _changes(rows, names)):
        ordered += _followed(_filled(_once(changes)))
    return Ordered(rows, ordered)


def _truncated(
    rows: pa.Table, key: Sequence[str], of: list[int], truncates: pa.Table, number: int
) -> pa.Table:
    """A TRUNCATE as changes of the keys in some of the rows."""
    count = len(of)
    own = pa.array(of, pa.int64())
    columns: dict[str, Any] = {name: rows.column(name).take(own) for name in key}
    for name in (COMMIT_LSN, ORDINAL, COMMITTED_AT):
        columns[name] = truncates.column(name).take(pa.array([number] * count, pa.int64()))
    columns[OP] = pa.array([TRUNCATE] * count, pa.string())
    columns[LIVE] = columns[HELD] = pa.array([False] * count, pa.bool_())
    return as_columns(rows.schema, pa.table(columns))


def _changes(rows: pa.Table, names: set[str]) -> Iterator[Change]:
    """``names``: the columns that can be unchanged."""
    beside = (COMMIT_LSN, ORDINAL, OP, LIVE, HELD, UNCHANGED)
    columns = (rows.column(name).to_pylist() for name in beside)
    for row, (lsn, ordinal, op, live, held, kept) in enumerate(zip(*columns, strict=True)):
        unchanged = tuple(names.intersection(kept)) if kept else ()
        yield Change(row, Position(lsn, ordinal), op, live, held, unchanged)


def _by_key(keys: list[Key], changes: Iterable[Change]) -> Iterable[list[Change]]:
    found: dict[Key, list[Change]] = {}
    for key, change in zip(keys, changes, strict=True):
        found.setdefault(key, []).append(change)
    return found.values()


def _once(changes: list[Change]) -> list[Change]:
    """In order, each position once: what the table holds counts, and a row rather than its end."""
    changes.sort(key=lambda one: (one.at, not one.held, not one.live))
    return [
        one for before, one in zip([None, *changes], changes, strict=False)
        if before is None or before.at != one.at
    ]  # fmt: skip


def _filled(changes: list[Change]) -> list[Change]:
    """With the values that they left unchanged. One that lacks a value which nobody has is left out
    where the row was read later as a whole."""
    if not any(change.unchanged for change in changes):
        return changes
    _find_values(changes)
    read_later, left = False, []
    for change in reversed(changes):
        if not (change.unknown and read_later):
            left.append(change)
        read_later = read_later or change.at.ordinal == 0
    return left[::-1]


def _find_values(changes: list[Change]) -> None:
    names = {name for change in changes for name in change.unchanged}
    last: dict[str, int] = {}
    for change in changes:
        if not change.live:
            last.clear()  # nothing is known behind a deletion
            continue
        told = names.difference(change.unchanged)
        last |= dict.fromkeys(told, change.row)
        if change.unchanged:
            change.values = {name: last.get(name) for name in change.unchanged}
            change.unknown = None in change.values.values()


def _followed(changes: list[Change]) -> list[Change]:
    before: Change | None = None
    for change in changes:
        if before is not None:
            before.next, change.was_live = change, before.live
        before = change
    return changes


def news_of_log(ordered: Ordered) -> list[Change]:
    """What a log lacks: what the rows were, and that one is gone which was there before."""
    return [one for one in ordered.changes if not one.held and (one.live or one.was_live)]


def op_in_log(change: Change) -> str:
    """What a log says that was done: ``d`` also where the row only left the view."""
    return change.op if change.live or change.op == TRUNCATE else DELETE


def ending_elsewhere(ordered: Ordered, to: pa.Table) -> list[Change]:
    """The versions that a table lacks, and those that end elsewhere now. ``to`` tells of the rows
    that come first, which are the versions it holds, where they end: LSN and ordinal."""
    ends = list(zip(*(column.to_pylist() for column in to.columns), strict=True))
    return [
        one for one in ordered.changes
        if one.live
        and not (one.held and ends[one.row] == ((None, None) if one.next is None else one.next.at))
    ]  # fmt: skip
