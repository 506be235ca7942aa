"""Checks of views that are kept over mirrors in the state database: any SELECT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cdc.errors import ViewError
from cdc.preflight.view_columns import check_columns, store_columns
from cdc.source.postgres import Connection, identifier, plan_fault

if TYPE_CHECKING:
    from cdc.config import View
    from views.maintain import MirrorTable
    from views.tables import TableVersion
    from views.types import PgType

_ONE_TEXT: Final = frozenset(
    ("int2", "int4", "int8", "oid", "bool", "uuid", "enum", "date", "time", "timestamp", "bytea")
) | {"timestamptz", "text", "varchar", "name", "inet", "cidr", "macaddr", "macaddr8", "pg_lsn"}
"""Types of which equal values have one text."""


def described(
    conn: Connection,
    name: str,
    view: View,
    kind: str,
    captured: Mapping[str, int],
    version: Callable[[str], TableVersion],
) -> str:
    """How a view is kept, in words, and its columns in a store of that kind. Raises ``ViewError``
    for what cannot be.

    ``captured`` are the tables by ``schema.table``, ``version`` describes one as it is now.
    """
    from views.maintain import plan_view
    from views.table_references import reading, tables_read

    labels = [table.name for table in tables_read(name, view.sql)]
    for label in labels:
        if label not in captured:
            raise ViewError(
                f"views.{name}.sql reads {label}, which is not captured",
                f"captured are: {', '.join(captured)}; add it to source.tables",
            )
    plan = plan_view(name, view.sql, view.key, {one: _mirror(version(one)) for one in labels})
    sql = reading(name, view.sql, _qualified)
    if said := plan_fault(conn, sql):
        raise ViewError(
            f"view {name}: PostgreSQL refuses its SQL: {said}", "write it as it takes it"
        )
    found = store_columns(conn, view, labels, sql)
    check_columns(name, view, kind, found)
    columns = ", ".join(f"{column} {type_}" for column, type_ in found)
    if plan.mode == "whole":
        return f"in {view.store}, computed whole ({plan.reason}): {columns}"
    if plan.whole_tables:
        whole = ", ".join(plan.whole_tables)
        return f"in {view.store}, incremental, whole at a change of {whole}: {columns}"
    return f"in {view.store}, incremental: {columns}"


def _mirror(version: TableVersion) -> MirrorTable:
    from views.maintain import MirrorColumn, MirrorTable

    columns = tuple(
        MirrorColumn(one.name, str(one.type), one.nullable, _has_one_text(one.type))
        for one in version.columns
    )
    return MirrorTable(version.schema, version.table, columns, version.key)


def _has_one_text(kind: PgType) -> bool:
    return kind.name in _ONE_TEXT or (kind.name == "numeric" and kind.precision >= 0)


def _qualified(schema: str, table: str) -> str:
    return f"{identifier(schema)}.{identifier(table)}"
