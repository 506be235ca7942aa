"""A PostgreSQL that has the rows of a history, and what a view's SQL gives there.

A store is compared with it twice: with the SQL as it was declared, and, where that leaves the order
of an array to PostgreSQL, with the SQL that ``verify`` runs, which orders it as the view does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader
from sqlglot import exp

from tests.chaos.views.contents import differences
from tests.chaos.views.declarations import Kept
from tests.spark_maintenance.schemas import Row, Rows
from verification.values.canonical_form import Canonicalizer, canonicalizer, row_canonicalizer
from views.parse.expression_parts import aggregates
from views.spark.resolution import Output
from views.spark.view import MaintainedView, View
from views.table_versions import TableVersion
from views.types import TIMESTAMPTZ

Connection = psycopg.Connection[tuple[Any, ...]]


class Source:
    """Tables in a schema of a transaction of ``conn``, which is rolled back by whoever began it."""

    def __init__(self, conn: Connection, tables: Iterable[TableVersion]) -> None:
        self._conn = conn
        self._tables = {table.name: table for table in tables}
        self._held: dict[str, Rows] = {name: {} for name in self._tables}
        as_text(conn)
        conn.rollback()
        self._run("create schema source", "set local search_path to source")
        self._run("set local timezone to 'UTC'")
        for table in self._tables.values():
            columns = ", ".join(f"{c.name} {c.type}" for c in table.columns)
            key = ", ".join(table.key)
            self._run(f"create table {table.table} ({columns}, primary key ({key}))")

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._conn.execute(statement.encode())

    def commit(self, rows: Mapping[str, Rows]) -> None:
        """Change the tables, by name, to these rows."""
        for name, table in self._tables.items():
            before, after = self._held[name], rows[name]
            gone = [key for key, row in before.items() if after.get(key) != row]
            come = [row for key, row in after.items() if before.get(key) != row]
            with self._conn.cursor() as cursor:
                kinds = {column.name: column.type for column in table.columns}
                where = " and ".join(f"{name} = %s::{kinds[name]}" for name in table.key)
                cursor.executemany(f"delete from {table.table} where {where}".encode(), gone)
                into = sql.SQL("copy {} from stdin").format(sql.Identifier(table.table))
                with cursor.copy(into) as copy:
                    for row in come:
                        copy.write_row([row[column.name] for column in table.columns])
            self._held[name] = dict(after)

    def differences(self, view: View, stored: Iterable[Mapping[str, Any]]) -> list[str]:
        """A line for each kind of difference between a store's rows and the view's SQL."""
        return compared(self._conn, view, list(stored))


def as_text(conn: Connection) -> None:
    """Have values that are text in Spark come as such."""
    for kind in ("uuid", "json", "jsonb"):
        conn.adapters.register_loader(kind, TextLoader)


def compared(conn: Connection, view: View, rows: list[Mapping[str, Any]]) -> list[str]:
    """A line for each kind of difference between rows and what the view's SQL gives."""
    found = []
    declared = view.definition.sql
    if "collect_list" not in declared:  # no word of PostgreSQL
        found += _differences(conn, view, rows, declared, ordered=False)
    if isinstance(view, MaintainedView):
        sql_ = view.reading(lambda _, name: f"select * from {name}")
        found += _differences(conn, view, rows, sql_, ordered=True)
    return found


def _differences(
    conn: Connection, view: View, rows: list[Mapping[str, Any]], text: str, ordered: bool
) -> list[str]:
    names = [output.name for output in view.outputs]
    there = conn.execute(text.encode()).fetchall()
    canonical = _canonical(view, ordered)
    wanted = canonical(
        {o.name: _read(o, value) for o, value in zip(view.outputs, row, strict=True)}
        for row in there
    )
    held = canonical({o.name: _read(o, row[o.name]) for o in view.outputs} for row in rows)
    if len(wanted) < len(there):
        return [f"rows of {names} have the same key {view.key} in PostgreSQL"]
    said = "its SQL, ordered," if ordered else "its SQL"
    return differences(Kept(f"beside {said} v", "the store", view.key, text), wanted, held)


def _canonical(view: View, ordered: bool) -> Callable[[Iterable[Row]], Rows]:
    """Rows by their key, in the one form for values wherever they were read."""
    forms = [
        canonicalizer(one.type)
        if ordered
        else _loose(_made_of(view, one.name), canonicalizer(one.type))
        for one in view.outputs
    ]
    whole, names = row_canonicalizer(forms), [output.name for output in view.outputs]

    def by_key(rows: Iterable[Row]) -> Rows:
        made = (dict(zip(names, whole(row.values()), strict=True)) for row in rows)
        return {tuple(row[name] for name in view.key): row for row in made}

    return by_key


def _made_of(view: View, name: str) -> exp.Expr | None:
    """The output's expression, if the order of rows can be seen in it."""
    items = view.definition.statement.expressions
    item: exp.Expr | None = next(one for one in items if one.alias_or_name == name)
    return item if item is not None and any(map(_lists, aggregates(item))) else None


def _lists(node: exp.Expr) -> bool:
    return isinstance(node, exp.ArrayAgg | exp.JSONArrayAgg | exp.GroupConcat | exp.Anonymous)


def _loose(item: exp.Expr | None, form: Canonicalizer | None) -> Canonicalizer | None:
    """The order of what was aggregated does not count, where there is any."""
    if item is None:
        return form

    def loose(value: Any) -> Any:
        made = value if form is None else form(value)
        if isinstance(made, str):
            return sorted(made.split(", "))
        return sorted(made, key=repr) if isinstance(made, tuple) else made

    return loose


def _read(output: Output, value: Any) -> Any:
    """Of JSON whose parts are typed the numbers as they are written; instants, which Spark gives
    in the time of this process, in that of UTC."""
    if isinstance(value, str) and "struct" in (output.type.name, output.type.element):
        return json.loads(value, parse_float=str)
    is_instant = output.type == TIMESTAMPTZ and isinstance(value, datetime)
    return value.astimezone(UTC) if is_instant else value
