"""A view of any SELECT, as it is verified: its columns are what PostgreSQL says of the SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier
from cdc.source.types import load_types
from jobs.state.values.json_forms import form_of, json_form
from jobs.state.views.known_columns import Relation, known_columns
from jobs.state.views.view_columns import ViewColumn, described
from jobs.state.views.view_names import ViewNames
from views.parse.table_references import RelationOf, TableName, reading, tables_read
from views.spark.resolution import Output

_JSON: Final = ("json", "jsonb")
_AS_THEY_ARE: Final = ViewNames()
SEARCH_PATH: Final = "set local search_path = pg_catalog, public"
"""Of the SQL of such views: names that are not qualified are the system's or in ``public``."""


@dataclass(frozen=True, slots=True)
class SelectView:
    """``tables`` are what ``sql`` reads, each once; ``names`` are what it calls their columns.

    ``whole`` is the SQL as the view is kept, for what is written leaves something open: the order
    of a list, or which table a GROUP BY names the key of, where columns have other names by now.
    ``row_key``: the columns of its table that its key is, if each row is made of one of that.
    """

    name: str
    key: tuple[str, ...]
    sql: str
    tables: tuple[TableName, ...]
    columns: tuple[ViewColumn, ...]
    names: ViewNames = _AS_THEY_ARE
    whole: Callable[[Relation], str] | None = None
    row_key: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        own = dict(zip(self.key, self.row_key, strict=False))
        return tuple(Output(one.name, one.kind, "", own.get(one.name)) for one in self.columns)

    def shown(self) -> tuple[str, ...]:
        """What is selected of the SQL's columns: a numeric is rounded as in stores, and what is
        known of a JSON value is written as there, as text."""
        return tuple(map(_shown, self.columns))

    @property
    def documents(self) -> tuple[int, ...]:
        """The columns that are shown as JSON documents."""
        return tuple(i for i, column in enumerate(self.columns) if _is_document(column))

    def reading(self, relation: RelationOf) -> str:
        """The SQL as it was written, or as it is kept, but for its tables."""
        return _reading(self.name, self.sql, self.names, self.whole, relation)


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


def named(relation: str) -> str:
    """A relation in FROM: before 16 a SELECT needs a name there."""
    return f"{relation} as published" if relation.startswith("(") else relation


def _reading(
    name: str,
    sql: str,
    names: ViewNames,
    whole: Callable[[Relation], str] | None,
    relation: RelationOf,
) -> str:
    def seen(label: str) -> str:
        schema, _, table = label.partition(".")
        return names.reading(label, relation(schema, table))

    if whole is not None:
        return whole(lambda label: named(seen(label)))
    return reading(name, sql, lambda schema, table: seen(f"{schema}.{table}"))


def described_view(
    conn: Connection,
    name: str,
    key: Sequence[str],
    sql: str,
    relation: RelationOf,
    names: ViewNames = _AS_THEY_ARE,
    whole: Callable[[Relation], str] | None = None,
    row_key: tuple[str, ...] = (),
) -> SelectView:
    """The view as the source describes it now, reading ``relation`` in place of each table;
    ``names``, ``whole`` and ``row_key`` as of ``SelectView``.

    Raises ``SourceError`` for SQL that the source refuses, ``ViewError`` for a key that is no
    column.
    """
    types, tables = load_types(conn), tables_read(name, sql)
    read = {table.name: relation(*table) for table in tables}
    keyed = {table.name: _quoted(table) for table in tables}
    with translated(f"describing view {name}"):
        known = known_columns(
            conn, sql, key, read, read.__getitem__, types, names, keyed.__getitem__
        )
    select = f"\n{_reading(name, sql, names, whole, relation)}\n"
    with translated(f"describing view {name}"), conn.transaction():
        conn.execute(SEARCH_PATH)
        columns = described(conn, select, types, known)
    there = [column.name for column in columns]
    for column in key:
        if column not in there:
            raise ViewError(
                f"views.{name}.key: {column!r} is not a column of the view",
                f"choose from {', '.join(there)}",
            )
    return SelectView(name, tuple(key), sql, tables, columns, names, whole, row_key)


def _quoted(table: TableName) -> str:
    return f"{identifier(table.schema)}.{identifier(table.table)}"
