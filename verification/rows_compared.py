"""The rows of two SELECTs beside each other, in one snapshot of the state database: what a view
would show by another SQL. No store is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import quoted


class RowsCompared(NamedTuple):
    """How many rows each has, and how many one has alone; ``changed`` are in both and differ.
    ``columns`` counts the rows that differ in each column that both have. ``keys`` are some of
    those rows, with their key as text. ``unfit`` counts the keys of each that hold NULL or are
    those of several rows: of them no view can be made, and the other counts are not exact."""

    rows: int
    other_rows: int
    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]
    keys: Sequence[Mapping[str, Any]]
    unfit: int = 0
    other_unfit: int = 0

    @property
    def equal(self) -> bool:
        return not any((self.added, self.removed, self.changed, self.unfit, self.other_unfit))


def compare(
    conn: Connection,
    view: str,
    sql: str,
    other: str,
    key: Sequence[str],
    columns: Sequence[str],
    most_keys: int,
    timeout_s: float,
) -> RowsCompared:
    """``columns`` are those that both have, without the key. ``conn`` is in autocommit mode.

    Raises ``HeadwaterError`` for SQL that fails on the rows that there are, and where it takes
    longer than ``timeout_s``.
    """
    query = compared_sql(sql, other, key, columns, most_keys)
    with translated(f"comparing rows of view {view}"), conn.transaction():
        conn.execute(b"set transaction isolation level repeatable read, read only")
        limit = f"set local statement_timeout = {max(1, round(timeout_s * 1000))}"
        conn.execute(limit.encode())
        row = conn.execute(query.encode()).fetchone()
    assert row is not None, "an aggregate is one row"
    rows, others, added, removed, changed, keys, unfit, other_unfit, *counts = row
    found = {name: count for name, count in zip(columns, counts, strict=True) if count}
    return RowsCompared(
        rows, others, added, removed, changed, found, keys or [], unfit, other_unfit
    )


def compared_sql(
    sql: str, other: str, key: Sequence[str], columns: Sequence[str], most_keys: int
) -> str:
    """One row of counts. Values are compared as texts, as they are shown: types of the two may
    differ. Pure."""
    keys = [f"k{i}" for i in range(len(key))]
    values = [f"c{i}" for i in range(len(columns))]
    shown = ", ".join(
        f'w.{quoted(name)}::text collate "C" as {short}'
        for name, short in zip((*key, *columns), (*keys, *values), strict=True)
    )
    joined = " and ".join(f"o.{one} = n.{one}" for one in keys)
    kept = ", ".join(f"coalesce(o.{one}, n.{one}) as {one}" for one in keys)
    differs = ", ".join(
        f"(o.here and n.here and o.{one} is distinct from n.{one}) as {one}" for one in values
    )
    any_value = " or ".join(values) or "false"
    named = ", ".join(
        part for name, one in zip(key, keys, strict=True) for part in (_text(name), one)
    )
    kind = "case when not is_old then 'added' when not is_new then 'removed' else 'changed' end"
    counts = "".join(f", count(*) filter (where {one})" for one in values)
    return (
        f"with o as (select {shown}, true as here from ({sql}) w), "
        f"n as (select {shown}, true as here from ({other}) w), "
        f"j as materialized (select {kept}, o.here is not null as is_old, "
        f"n.here is not null as is_new{', ' if differs else ''}{differs} "
        f"from o full join n on {joined}) "
        f"select count(*) filter (where is_old), count(*) filter (where is_new), "
        f"count(*) filter (where not is_old), count(*) filter (where not is_new), "
        f"count(*) filter (where is_old and is_new and ({any_value})), "
        f"(select json_agg(f) from (select {kind} as kind, json_build_object({named}) as key "
        f"from j where not is_old or not is_new or {any_value} "
        f"order by {', '.join(keys)} limit {int(most_keys)}) f), "
        f"{_unfit('o', keys)}, {_unfit('n', keys)}{counts} from j"
    )


def _unfit(side: str, keys: Sequence[str]) -> str:
    """How many keys of it hold NULL or are those of several rows."""
    is_null = " or ".join(f"{one} is null" for one in keys)
    return (
        f"(select count(*) from (select from {side} group by {', '.join(keys)} "
        f"having count(*) > 1 or {is_null}) u)"
    )


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
