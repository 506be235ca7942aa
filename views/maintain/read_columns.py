"""The columns that a view reads of each table. Pure."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from cdc.errors import ViewError
from views.maintain.mirror import MirrorTable
from views.maintain.touched.occurrences import occurrences
from views.maintain.tree.correlated_sources import columns
from views.maintain.tree.tree import Statement

LOST_HINT: Final = "choose another mode in [events], or leave the column out of the view"


def columns_read(statement: Statement) -> dict[str, tuple[str, ...]]:
    """By table, its key among them. Raises ``ViewError`` for one whose values are lost."""
    found: dict[str, set[str]] = {}
    tables: dict[str, MirrorTable] = {}
    by_alias = {}
    for occurrence in occurrences(statement):
        table = occurrence.table
        tables[table.table] = table
        by_alias[occurrence.alias] = table.table
        found.setdefault(table.table, set()).update(table.key)
    for column in columns(statement.query, statement.subqueries):
        if column.table in by_alias:
            whole = isinstance(column.this, exp.Star)
            table = tables[by_alias[column.table]]
            names = [item.name for item in table.columns] if whole else [column.name]
            found[table.table].update(names)
    for name, read in found.items():
        _refuse_lost(statement.view, tables[name], read)
    return {
        name: tuple(item.name for item in tables[name].columns if item.name in found[name])
        for name in found
    }


def _refuse_lost(view: str, table: MirrorTable, read: set[str]) -> None:
    for column in table.columns:
        if column.lost and column.name in read:
            raise ViewError(
                f"views.{view}.sql reads {column.name} of {table.table}, whose values events do "
                f"not have exactly: {column.lost}",
                LOST_HINT,
            )
