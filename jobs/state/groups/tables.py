"""Tables of groups that are kept by the change: made with a generation, filled from the mirrors.

From the moment that batches know a generation they add to its table what its groups gain and lose.
What the build puts there is what the mirrors have in one snapshot, less what batches had added in
the same one: so it keeps no batch waiting, and whatever was in the table before is made up for. A
table that cannot be filled, or followed by a batch, is dropped: rows are made of all rows of their
groups then, until a keeper has made it anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import psycopg
import structlog

from cdc.log_events import LogEvent
from jobs.state.groups.sums import ADDED, BUILT, GROUP_SCHEMA, GroupSums
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_generation import ViewGeneration
from views.maintain.groups.group_plan import GroupPlan, Relation

log = structlog.get_logger("apply")

UNKNOWN: Final = "42P01"
"""SQLSTATE of a table that is not there."""
OF_DATA: Final = ("22", "21", "23", "54", "0A", UNKNOWN)
"""What a batch cannot add for the sake of values, or for a table that is not there."""
_ONE_TEXT: Final = """
    smallint integer bigint oid boolean uuid date bytea name inet cidr macaddr macaddr8 pg_lsn
    timestamp without time zone,timestamp with time zone,time without time zone
"""
_TEXTS: Final = ("text", "character varying", "character")
_SUMMED: Final = ("smallint", "integer", "bigint", "numeric")
_MANY, _SMALL = 10_000, 50
_GROUPING: Final = ("Aggregate", "Group", "Sort", "Incremental Sort", "Unique", "Gather",
                    "Gather Merge")  # fmt: skip
_TYPES: Final = b"""
select pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null), t.typtype::text,
    pg_catalog.format_type(k.oid, k.modifier)
from unnest(%s::oid[], %s::integer[]) with ordinality k(oid, modifier, n)
join pg_catalog.pg_type t on t.oid = k.oid
order by k.n
"""


def group_sums(
    conn: Connection, view_id: int, plan: GroupPlan | None, relation: Relation
) -> GroupSums | None:
    """The group table that a generation has or may have; None where the types of what is grouped
    or summed do not allow it. The body is planned, and not run."""
    if plan is None:
        return None
    found = _types(conn, plan, relation)
    if unfit_column(plan, found):
        return None
    types = {name: found[name].name for name in _summed_arguments(plan)}
    grouped = [*(name for name, _ in plan.keys), *plan.others]
    return GroupSums(view_id, plan, types, tuple(found[name].declared for name in grouped))


def why_not_kept(conn: Connection, view_id: int, plan: GroupPlan, relation: Relation) -> str:
    """Why a group is made of all of its rows though its SQL would allow that it is kept, with what
    to change."""
    if unfit := unfit_column(plan, _types(conn, plan, relation)):
        return unfit
    sums = group_sums(conn, view_id, plan, relation)
    if sums is not None and _are_small(conn, sums, relation):
        return (
            f"the planner estimates more than {_MANY:,} groups with fewer than {_SMALL} rows each, "
            "which is as fast: nothing needs to be changed"
        )
    return (
        "its counts and sums are not filled: they are after the next build, or some seconds after "
        "a value that could not be added; see groups_not_kept in apply's log"
    )


class ColumnType(NamedTuple):
    """``declared`` has the modifier: the group table keeps it, and would round what is wider."""

    name: str
    kind: str
    declared: str


def _types(conn: Connection, plan: GroupPlan, relation: Relation) -> dict[str, ColumnType]:
    """The type of each column of the body."""
    query = f"select * from ({plan.body(relation)}) body limit 0"
    cursor = conn.execute(query.encode(), prepare=False)
    columns, result = cursor.description or [], cursor.pgresult
    assert result is not None, "it was executed"
    oids = [column.type_code for column in columns]
    modifiers = [result.fmod(number) for number in range(len(columns))]
    types = conn.execute(_TYPES, (oids, modifiers)).fetchall()
    names = [column.name for column in columns]
    return {name: ColumnType(*map(str, of)) for name, of in zip(names, types, strict=True)}


def _summed_arguments(plan: GroupPlan) -> list[str]:
    return [one.name for one in plan.arguments if "sum" in one.kinds]


def unfit_column(plan: GroupPlan, found: Mapping[str, ColumnType]) -> str:
    """The column of which no group can be kept, with what to change; "" if there is none."""
    for name, shown in [*plan.keys, *((other, "") for other in plan.others)]:
        type_, kind, _ = found[name]
        text = type_ in _TEXTS and name in plan.texts
        if not (name in plan.plain or text or kind == "e" or type_ in _names(_ONE_TEXT)):
            of = f"{shown}, an" if shown else "an"
            return f"it groups by {of} expression of type {type_}: group by a column of a table"
    for name in _summed_arguments(plan):
        if (type_ := found[name].name) not in _SUMMED:
            return f"it sums values of type {type_}: cast them to numeric or an integer"
    return ""


def _names(text: str) -> set[str]:
    words, _, listed = text.strip().partition("\n")
    return {*words.split(), *(one.strip() for one in listed.split(","))}


def make_group_table(conn: Connection, sums: GroupSums, relation: Relation) -> None:
    """Make the table, empty, in place of one that there may be."""
    plan = sums.plan
    grouped = [*sums.keys, *plan.others]
    columns = ", ".join([
        *grouped,
        *(f"0 as c{name[1:]}" for name in sums.scaled),
        "null::uuid as h", "0::smallint as part",
        *(f"0::{'numeric' if name.startswith('s') else 'bigint'} as {name}" for name in sums.sums),
    ])  # fmt: skip
    key = ", ".join([*sums.keys, "h", "part"])
    conn.execute(f"drop table if exists {sums.table}".encode())
    made = f"select {columns} from ({plan.body(relation)}) body"
    conn.execute(f"create table {sums.table} as {made} with no data".encode())
    counted = [f"alter {name} set not null" for name in [*sums.sums, "part"]]
    actions = ", ".join([*counted, "set (fillfactor = 70)", f"add primary key ({key})"])
    conn.execute(f"alter table {sums.table} {actions}".encode())


def is_filled(conn: Connection, sums: GroupSums, relation: Relation) -> bool:
    """Whether the table is there, and was filled as it would be filled now."""
    query = (
        b"select pg_catalog.obj_description(pg_catalog.to_regclass(%s), 'pg_class') is not distinct"
        b" from %s"
    )
    row = conn.execute(query, (sums.table, _mark(sums, relation))).fetchone()
    return row is not None and bool(row[0])


def fill_group_table(conn: Connection, sums: GroupSums, relation: Relation, again: bool) -> None:
    """Put there what the mirrors have, in a transaction of its own, while batches add to it.
    ``again``: it was filled before, so that batches that want to add wait for this to end."""
    with conn.transaction():
        if again:
            conn.execute(f"lock table {sums.table} in share row exclusive mode".encode())
            conn.execute(f"delete from {sums.table} where part = {BUILT}".encode())
        conn.execute(sums.build(relation).encode(), prepare=False)
        mark = _mark(sums, relation)
        conn.execute(f"comment on table {sums.table} is '{mark}'".encode())
    conn.execute(f"analyze {sums.table}".encode())


def renew_group_table(conn: Connection, sums: GroupSums, relation: Relation) -> None:
    """Make the table of a view that batches know, and fill it: no batch runs meanwhile, for what
    one adds before it sees the table would be lost."""
    with conn.transaction():
        conn.execute(b"select from headwater.progress for update")
        make_group_table(conn, sums, relation)
        fill_group_table(conn, sums, relation, again=False)


def drop_group_table(conn: Connection, view_id: int) -> None:
    """Remove it."""
    conn.execute(f"drop table if exists {GROUP_SCHEMA}.v{view_id}".encode())


def is_of_data(error: psycopg.Error) -> bool:
    """Whether values are at fault, or a table that was dropped."""
    return (error.sqlstate or "").startswith(OF_DATA)


def with_groups(conn: Connection, view: ViewGeneration) -> ViewGeneration:
    """A view with its group table, which is made if it is not there or is another one; before
    batches know the view."""
    with translated(f"opening the groups of view {view.name}"):
        sums = group_sums(conn, view.id, view.plan.groups, view.relation)
        if sums is None:
            return replace(view, groups=None)
        if not is_filled(conn, sums, view.relation):
            if _are_small(conn, sums, view.relation):
                return replace(view, groups=None)
            with conn.transaction():
                make_group_table(conn, sums, view.relation)
    return replace(view, groups=sums)


def _are_small(conn: Connection, sums: GroupSums, relation: Relation) -> bool:
    """Whether the groups are so many and small that their rows are read as quickly, as the server
    estimates them."""
    if not sums.plan.grouped:
        return False
    listed = ", ".join([*sums.keys, *sums.plan.others])
    query = f"explain (format json) select {listed} from ({sums.plan.body(relation)}) b "
    row = conn.execute(f"{query} group by {listed}".encode(), prepare=False).fetchone()
    assert row is not None, "it describes a plan"
    groups, rows = _estimated(row[0][0]["Plan"])
    return groups > _MANY and rows / groups < _SMALL


def _estimated(plan: dict[str, Any]) -> tuple[float, float]:
    """The groups, and the rows that the last stage groups."""
    groups, rows = float(plan["Plan Rows"]), float(plan["Plan Rows"])
    while plan.get("Node Type") in _GROUPING:
        plan = plan["Plans"][0]
        rows = max(rows, float(plan["Plan Rows"]))
    return groups, rows


def fill_groups(conn: Connection, view: ViewGeneration, again: bool = False) -> bool:
    """Fill the groups of a view that batches know, if they are not, or ``again``, whether there is
    a table or not; whether they are kept. Groups whose values do not allow it are kept no more."""
    sums = view.groups
    if sums is None:
        return False
    with translated(f"filling the groups of view {view.name}"):
        filled = is_filled(conn, sums, view.relation)
        if filled and not again:
            return True
        try:
            if again and not _is_there(conn, sums):
                renew_group_table(conn, sums, view.relation)
            else:
                fill_group_table(conn, sums, view.relation, again)
        except psycopg.Error as error:
            if not is_of_data(error):
                raise
            drop_group_table(conn, view.id)
            log.info(LogEvent.GROUPS_NOT_KEPT, view=view.name, sqlstate=error.sqlstate)
            return False
    if again:
        log.info(LogEvent.GROUPS_MADE_ANEW, view=view.name)
    return True


def _is_there(conn: Connection, sums: GroupSums) -> bool:
    row = conn.execute(b"select to_regclass(%s) is not null", (sums.table,)).fetchone()
    return row is not None and bool(row[0])


def _mark(sums: GroupSums, relation: Relation) -> str:
    told = "\n".join([sums.build(relation), sums.add(""), str(ADDED), *sums.columns,
                      *sums.grouped_types, *sums.types.values()])  # fmt: skip
    return hashlib.sha256(told.encode()).hexdigest()
