"""Checks of views that are kept over mirrors in the state database: any SELECT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cdc.errors import ViewError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, plan_fault, planned_rows
from headwater.check.index_fields import index_fields
from headwater.check.view_columns import check_columns, store_columns

if TYPE_CHECKING:
    from cdc.config import Store, View
    from jobs.state.views.view_names import TableNames
    from views.maintain import MirrorTable
    from views.maintain.plan import ViewPlan
    from views.parse.table_references import RelationOf
    from views.table_versions import TableVersion

_SMALLER: Final = (
    "raise apply.whole_rows, or change the SQL so that it can be maintained incrementally"
    " (docs/sql.md)"
)


def described(
    conn: Connection,
    name: str,
    view: View,
    store: Store,
    captured: Mapping[str, int],
    version: Callable[[str], TableVersion],
    mirror: Callable[[str], MirrorTable],
    relation: RelationOf,
    known: Mapping[str, TableNames],
    whole_rows: int,
) -> tuple[str, str, str]:
    """How a view is kept, in words, and its columns in its store; and a warning, with
    what to do, where it may have more rows than ``whole_rows`` allow, or more fields than its
    index. Raises ``ViewError`` for what cannot be.

    ``captured`` are the tables by ``schema.table``, ``version`` describes one as it is now,
    ``mirror`` as it will be planned over, ``relation`` gives what is read of it; ``known`` is what
    the view calls their columns, if it was built so.
    """
    from jobs.state.views.view_names import names_of
    from verification.select_view import named
    from views.histories import history_key
    from views.maintain import plan_view
    from views.parse.table_references import reading, tables_read

    labels = [table.name for table in tables_read(name, view.sql)]
    for label in labels:
        if label not in captured:
            raise ViewError(
                f"views.{name}.sql reads {label}, a table that is not captured",
                f"add it to source.tables; captured tables are {', '.join(captured)}",
            )
    tables = {one: version(one) for one in labels}
    names = names_of(known, tables)
    seen = {one: names.seen(mirror(one)) for one in labels}
    plan = plan_view(name, view.sql, view.key, seen)
    if view.history:
        keys = {label: table.key for label, table in tables.items()}
        history_key(view.history, plan, keys, names)
    read = {label: relation(*label.split(".", 1)) for label in labels}
    # What GROUP BY settles by a table's key is not settled by that of a SELECT.
    narrowed = any(one.startswith("(") for one in read.values())
    if names.called or narrowed:
        sql = plan.whole(lambda label: named(names.reading(label, read[label])))
    else:
        sql = reading(name, view.sql, lambda schema, table: read[f"{schema}.{table}"])
    if said := plan_fault(conn, sql):
        raise ViewError(
            f"view {name}: PostgreSQL rejects its SQL: {said}", "correct the SQL of the view"
        )
    with translated(f"describing view {name}"):  # the role may not be able to read its tables yet
        found = store_columns(conn, plan, view, read, sql, names)
    check_columns(name, view, store, found)
    columns = ", ".join(f"{column} {type_}" for column, type_ in found)
    how = f"every change ({view.history})" if view.history else _how(plan)
    said = f"in {view.store}, {how}: {columns}{_granted(plan)}"
    if warning := _large(conn, plan, sql, whole_rows):
        return said, warning, _SMALLER
    if store.kind == "opensearch":
        from jobs.spark.column_types import columns_named

        fields = index_fields(conn, name, view, sql, columns_named(found))
        return said, fields.fault, fields.hint
    return said, "", ""


def _how(plan: ViewPlan) -> str:
    """How a change reaches the view."""
    clock = ", and whole as time passes" if plan.clock else ""
    if plan.mode == "whole":
        return f"computed whole ({plan.reason}){clock}"
    if plan.whole_tables:
        return f"incremental, whole at a change of {', '.join(plan.whole_tables)}{clock}"
    return f"incremental{clock}"


def _large(conn: Connection, plan: ViewPlan, sql: str, at_most: int) -> str:
    """Of a view that is always computed whole, by the estimate of PostgreSQL's planner."""
    if plan.mode != "whole" and not plan.clock:
        return ""
    rows = planned_rows(conn, sql)
    if rows <= at_most:
        return ""
    return f"has some {rows:,} rows by the planner's estimate, and apply.whole_rows is {at_most:,}"


def _granted(plan: ViewPlan) -> str:
    return f"; taken for granted: {'; '.join(plan.assumes)}" if plan.assumes else ""
