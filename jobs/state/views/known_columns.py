"""What is known of a view's columns beyond PostgreSQL's description of its result.

PostgreSQL computes a numeric without limits where the view's tables have some, and a JSON value
without a word of what is in it. Where the types of a view's SQL can be told from those of its
tables (``views.spark.view``), a column has the limits, and the fields of the objects that it nests.
Of any other SQL the objects that it makes are known (``views.spark.nested_result``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

import psycopg

from cdc.errors import ViewError
from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import Connection
from jobs.state.views.view_columns import described
from jobs.state.views.view_names import ViewNames
from views.parse.definition import parse_view
from views.parse.table_references import reading
from views.spark.nested_result import Items, Nested, Value, nested_columns
from views.spark.view import resolve_view
from views.table_versions import TableColumn, TableVersion
from views.types import PgType, array_of

Relation: TypeAlias = Callable[[str], str]
Types: TypeAlias = Mapping[int, TypeInfo]
_KEY = """
select a.attname from pg_catalog.pg_index i, unnest(i.indkey) with ordinality k(attnum, n),
       pg_catalog.pg_attribute a
where i.indrelid = to_regclass(%s) and i.indisprimary
  and a.attrelid = i.indrelid and a.attnum = k.attnum
order by k.n
"""
_AS_THEY_ARE: Final = ViewNames()


def known_columns(
    conn: Connection,
    sql: str,
    key: Iterable[str],
    tables: Iterable[str],
    relation: Relation,
    types: Types,
    names: ViewNames = _AS_THEY_ARE,
    keyed: Relation | None = None,
) -> dict[str, PgType]:
    """Types by column, of a view over ``tables`` (``schema.table``), which ``relation`` names as
    the session's database has them, and ``names`` has the columns of; without those that cannot be
    told. ``keyed`` names the tables themselves, where ``relation`` gives a SELECT of them."""

    def seen(table: str) -> str:
        return names.reading(table, relation(table))

    try:
        definition = parse_view("v", "s", list(key), sql)
        versions = {
            table: _version(conn, table, relation(table), (keyed or relation)(table), types, names)
            for table in tables
        }
        return {output.name: output.type for output in resolve_view(definition, versions).outputs}
    except (ViewError, KeyError):
        return _nested(conn, sql, seen, types)


def _nested(conn: Connection, sql: str, relation: Relation, types: Types) -> dict[str, PgType]:
    """Objects and lists that the SQL makes, with the types that PostgreSQL tells of their parts."""
    try:
        columns = nested_columns("v", sql)
    except ViewError:
        return {}
    made = {
        name: _kind(nested, partial(_told, conn, name, relation, types))
        for name, nested in columns.items()
    }
    return {name: kind for name, kind in made.items() if kind is not None}


def _kind(nested: Nested, told: Callable[[Value], PgType | None]) -> PgType | None:
    if isinstance(nested, Value):
        return told(nested)
    if isinstance(nested, Items):
        item = _kind(nested.item, told)
        return None if item is None or item.name == "array" else array_of(item)
    fields = [(name, _kind(of, told)) for name, of in nested.fields]
    if any(kind is None for _, kind in fields):
        return None
    return PgType("struct", fields=tuple((name, kind) for name, kind in fields if kind is not None))


def _told(
    conn: Connection, name: str, relation: Relation, types: Types, value: Value
) -> PgType | None:
    """The type of a value, of the first SELECT that PostgreSQL takes."""
    for select in value.selects:
        try:
            rewritten = reading("v", select, lambda schema, table: relation(f"{schema}.{table}"))
            with conn.transaction():
                columns = described(conn, rewritten, types)
        except (ViewError, psycopg.ProgrammingError, psycopg.DataError):
            continue
        return next(column.kind for column in columns if column.name == name)
    return None


def _version(
    conn: Connection, table: str, relation: str, keyed: str, types: Types, names: ViewNames
) -> TableVersion:
    columns = described(conn, f"select * from {names.reading(table, relation)} as t", types)
    schema, _, name = table.partition(".")
    key = tuple(names.known(table, column) for (column,) in conn.execute(_KEY.encode(), [keyed]))
    told = tuple(TableColumn(column.name, column.kind) for column in columns)
    return TableVersion("0" * 16, schema, name, told, key)
