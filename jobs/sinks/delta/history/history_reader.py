"""What a table of history holds of the keys of a small batch, read by delta-rs.

Files are left unread by the bounds of keys and positions that Delta's log has of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from jobs.sinks.arrow import python_values
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, OP, ORDINAL
from jobs.sinks.delta.delta_reader import named, read
from jobs.sinks.delta.history.arrow_order import BESIDE, as_columns
from jobs.sinks.delta.history.columns import FROM, TO, TO_LSN, TO_ORDINAL
from jobs.sinks.delta.history.spark_order import HELD, LIVE

_POSITION: Final = {field.name: field.type for field in BESIDE[:3]}
_TO: Final = {TO_LSN: COMMIT_LSN, TO_ORDINAL: ORDINAL, TO: COMMITTED_AT}


@dataclass(frozen=True, slots=True)
class Question:
    """What a batch asks of a table."""

    columns: pa.Schema
    """Those of the table that are no control columns."""
    key: tuple[str, ...]
    keys: pa.Table | None
    """The key columns of the batch, None where it concerns all of the table."""
    since: int
    """Where the batch begins: the lowest LSN in it."""
    values: frozenset[str]
    """The columns to read beside the key."""
    before: bool
    """Whether it matters what was before the batch begins."""

    def schema(self, *beside: pa.Field) -> pa.Schema:
        """The columns to read."""
        wanted = [field for field in self.columns if field.name in {*self.key, *self.values}]
        return pa.schema([*wanted, *beside])

    def where(self, *terms: str) -> str:
        """A condition that rows of the batch's keys meet, and few others; none that somebody else
        wrote, which has no position."""
        every = [f"{named(COMMIT_LSN)} is not null", *terms]
        if self.keys is not None:
            for name in self.key:
                every += among(name, python_values(self.keys.column(name)))
        return " and ".join(every)

    def rows(self, held: pa.Table, **columns: Any) -> pa.Table:
        """Rows of the table as ``in_order`` takes them, nothing in the columns not read."""
        ours = {HELD: pa.array([True] * len(held), pa.bool_()), **columns}
        return as_columns(pa.schema([*self.columns, *BESIDE]), held, **ours)


def logged(table: DeltaTable, asked: Question) -> pa.Table:
    """What a log has since the batch begins, and the newest change of each key before that."""
    position = [pa.field(name, kind) for name, kind in _POSITION.items()]
    schema = asked.schema(*position, pa.field(OP, pa.string()))
    since = f"{named(COMMIT_LSN)} >= {asked.since}"
    if asked.before:
        last = _last([*map(named, asked.key), since])
        held = read(table, schema, f"{asked.where()} qualify {since} or {last}")
    else:
        held = read(table, schema, asked.where(since))
    gone = pc.is_in(held.column(OP), pa.array([DELETE, TRUNCATE]))
    return asked.rows(held, **{LIVE: pc.invert(gone)})


def newest(key: Iterable[str]) -> str:
    """The rows of a log that are there now, as ``delta_rs.stream`` asks for them."""
    there = f"{named(OP)} not in ('{DELETE}', '{TRUNCATE}')"
    return f"true qualify {_last(map(named, key))} and {there}"


def _last(of: Iterable[str]) -> str:
    """The newest change of each that has the same of these."""
    order = f"{named(COMMIT_LSN)} desc, {named(ORDINAL)} desc"
    return f"row_number() over (partition by {', '.join(of)} order by {order}) = 1"


def versions(table: DeltaTable, asked: Question) -> tuple[pa.Table, pa.Table]:
    """The versions that did not end before the batch begins: where each begins, and (only
    ``TO_LSN``, ``TO_ORDINAL``) where it ends; then the ends as changes."""
    position = [pa.field(name, kind) for name, kind in _POSITION.items() if name != COMMITTED_AT]
    times = [pa.field(name, _POSITION[COMMITTED_AT]) for name in (FROM, TO)]
    to = [pa.field(name, pa.int64()) for name in (TO_LSN, TO_ORDINAL)]
    schema = asked.schema(*position, *times, *to)
    in_question = f'("{TO_LSN}" is null or "{TO_LSN}" >= {asked.since})'
    held = read(table, schema, asked.where(in_question))
    values = [field.name for field in asked.schema()]
    begins = held.select([*values, COMMIT_LSN, ORDINAL])
    ended = held.filter(pc.is_valid(held.column(TO_LSN)))
    ends = ended.select([*values, *_TO]).rename_columns([*values, *_TO.values()])
    return (
        pa.concat_tables([
            asked.rows(begins, **_version(len(held), True), **{COMMITTED_AT: held.column(FROM)}),
            asked.rows(ends, **_version(len(ends), False)),
        ]),
        held.select([TO_LSN, TO_ORDINAL]),
    )  # fmt: skip


def _version(count: int, live: bool) -> dict[str, Any]:
    return {
        OP: pa.array([SNAPSHOT] * count, pa.string()),
        LIVE: pa.array([live] * count, pa.bool_()),
    }


def among(name: str, values: Iterable[Any]) -> list[str]:
    """Conditions on a column that has one of some values: bounds, by which files are left unread,
    and the values. None for types of which not every value is a plain literal."""
    found = sorted(set(values))
    texts = [_literal(value) for value in found]
    if not found or None in texts:
        return []
    column = named(name)
    among_them = ", ".join(text for text in texts if text is not None)
    return [f"{column} >= {texts[0]}", f"{column} <= {texts[-1]}", f"{column} in ({among_them})"]


def _literal(value: Any) -> str | None:
    """A value as SQL of DataFusion has it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None
