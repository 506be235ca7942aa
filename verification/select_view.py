"""A view of any SELECT, as it is verified: its columns are what PostgreSQL says of the SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from cdc.source.postgres import Connection, identifier, translated
from cdc.source.types import load_types
from jobs.state.json_forms import form_of, json_form
from jobs.state.known_columns import known_columns
from jobs.state.view_columns import ViewColumn, described
from views.resolve import Output
from views.table_references import RelationOf, TableName, reading, tables_read

_JSON: Final = ("json", "jsonb")
SEARCH_PATH: Final = "set local search_path = pg_catalog, public"
"""Of the SQL of such views: names that are not qualified are the system's or in ``public``."""


@dataclass(frozen=True, slots=True)
class SelectView:
    """``tables`` are what ``sql`` reads, each once."""

    name: str
    key: tuple[str, ...]
    sql: str
    tables: tuple[TableName, ...]
    columns: tuple[ViewColumn, ...]

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(Output(one.name, one.kind, "", None) for one in self.columns)

    def shown(self) -> tuple[str, ...]:
        """What is selected of the SQL's columns: a numeric is rounded as in stores, and what is
        known of a JSON value is written as there, as text."""
        return tuple(map(_shown, self.columns))

    @property
    def documents(self) -> tuple[int, ...]:
        """The columns that are shown as JSON documents."""
        return tuple(i for i, column in enumerate(self.columns) if _is_document(column))

    def reading(self, relation: RelationOf) -> str:
        """The SQL as it was written, but for its tables."""
        return reading(self.name, self.sql, relation)


def _is_document(column: ViewColumn) -> bool:
    json = column.type.base in _JSON or (
        column.type.element is not None and column.type.element.base in _JSON
    )
    return json and column.kind.name in ("array", "struct") and column.kind.item.name not in _JSON


def _shown(column: ViewColumn) -> str:
    name, kind = identifier(column.name), column.kind
    if _is_document(column):
        return f"{json_form(form_of(kind, column.type, column.typmod), f'v.{name}')} as {name}"
    item, array = (kind.item, "[]") if kind.name == "array" else (kind, "")
    if item.exact:
        return f"{name}::numeric({item.precision},{item.scale}){array} as {name}"
    return name


def described_view(
    conn: Connection,
    name: str,
    key: Sequence[str],
    sql: str,
    relation: RelationOf,
) -> SelectView:
    """The view as the source describes it now, reading ``relation`` in place of each table.

    Raises ``SourceError`` for SQL that the source refuses, ``ViewError`` for a key that is no
    column.
    """
    types, tables = load_types(conn), tables_read(name, sql)
    relations = {table.name: _quoted(table) for table in tables}
    with translated(f"describing view {name}"):
        known = known_columns(conn, sql, key, relations, relations.__getitem__, types)
    select = f"\n{reading(name, sql, relation)}\n"
    with translated(f"describing view {name}"), conn.transaction():
        conn.execute(SEARCH_PATH)
        columns = described(conn, select, types, known)
    names = [column.name for column in columns]
    for column in key:
        if column not in names:
            raise ViewError(
                f"views.{name}.key: {column!r} is not a column of the view",
                f"it has {', '.join(names)}",
            )
    return SelectView(name, tuple(key), sql, tables, columns)


def _quoted(table: TableName) -> str:
    return f"{identifier(table.schema)}.{identifier(table.table)}"
