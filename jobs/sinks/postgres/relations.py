"""What a schema of PostgreSQL holds of a view, and what is done to it as a whole.

A generation's table and the view that people read say in their comments whose they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql.types import StructType

from cdc.errors import ViewError
from jobs.sinks.postgres.client import Connection
from jobs.sinks.postgres.errors import MADE_MEANWHILE
from jobs.sinks.postgres.quoting import ident
from jobs.sinks.postgres.table import ViewTable, described, document_of, shown, table_name
from jobs.sinks.schema_evolution import check_names


class Held(NamedTuple):
    """A table or view that is there. ``document`` is empty when it is not Headwater's."""

    kind: str
    document: dict[str, Any]


def held(conn: Connection, schema: str, name: str) -> Held | None:
    """What a schema has under a name."""
    found = conn.execute(
        "select c.relkind::text, obj_description(c.oid, 'pg_class') from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s",
        [schema, name],
    ).fetchone()
    if found is None:
        return None
    try:
        document = json.loads(found[1] or "")
    except ValueError:
        document = None
    ours = isinstance(document, dict) and "headwater_view" in document
    return Held(found[0], document if ours else {})


def live_generation(conn: Connection, schema: str, view: str) -> int | None:
    """The generation that people read, None if there is none.

    Raises ``ViewError`` when the name is somebody else's.
    """
    found = held(conn, schema, view)
    if found is None:
        return None
    if found.kind != "v" or found.document.get("headwater_view") != view:
        raise ViewError(
            f"view {view}: PostgreSQL already has a table or view {schema}.{view}",
            "rename the view, or give the store another target_schema",
        )
    return int(found.document["generation"])


def show(conn: Connection, table: ViewTable, view: str, number: int) -> None:
    """Let people read a generation; nothing else is to be seen from one moment to the next.

    Where the view loses a column it is made anew, with the rights it had.
    """
    document: dict[str, object] = {"headwater_view": view, "generation": number}
    said = described("view", table.schema, view, document)
    create = partial(shown, table.schema, view, table.name, table.columns)
    before = _columns(conn, table.schema, view)
    types = {column[0]: column for column in _columns(conn, table.schema, table.name)}
    after = [types[name] for name in table.columns.names]
    if before == after and live_generation(conn, table.schema, view) == number:
        return  # as it is: to say so again would wait for whoever reads
    if before == after[: len(before)]:
        run(conn, [*create(replacing=bool(before)), said])
        return
    rights = _rights(conn, table.schema, view)
    run(conn, [f"drop view {ident(table.schema)}.{ident(view)}"])
    run(conn, [*create(replacing=False), said, *rights])


def widen(conn: Connection, table: ViewTable, view: str, statements: Sequence[str]) -> None:
    """Alter columns of a generation's table. PostgreSQL does so only without the view that people
    read, if it is of this table: that is made anew, with the rights it had, in the same
    transaction."""
    number = live_generation(conn, table.schema, view)
    if number is None or table_name(view, number) != table.name:
        run(conn, statements)
        return
    rights, names = _rights(conn, table.schema, view), _names_of(conn, table.schema, view)
    run(conn, [f"drop view {ident(table.schema)}.{ident(view)}", *statements])
    known = StructType([field for field in table.columns if field.name in names])
    document: dict[str, object] = {"headwater_view": view, "generation": number}
    said = described("view", table.schema, view, document)
    run(conn, [*shown(table.schema, view, table.name, known, replacing=False), said, *rights])


def _names_of(conn: Connection, schema: str, view: str) -> set[str]:
    return {name for name, *_ in _columns(conn, schema, view)}


def _columns(conn: Connection, schema: str, name: str) -> list[tuple[Any, ...]]:
    """Names and types; none if there is no such table or view."""
    return conn.execute(
        "select a.attname, a.atttypid, a.atttypmod from pg_attribute a"
        " join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped"
        " order by a.attnum",
        [schema, name],
    ).fetchall()


def _rights(conn: Connection, schema: str, view: str) -> list[str]:
    """What was granted on a view, to be granted again."""
    found = conn.execute(
        "select format('grant %%s on %%I.%%I to %%s%%s', a.privilege_type, n.nspname, c.relname,"
        " case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,"
        " case when a.is_grantable then ' with grant option' else '' end)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace, aclexplode(c.relacl) a"
        " where n.nspname = %s and c.relname = %s and a.grantee <> c.relowner",
        [schema, view],
    )
    return [row[0] for row in found]


def run(conn: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        conn.execute(statement.encode())


def make_schema(conn: Connection, schema: str) -> None:
    """Make the schema of the store's tables, if it is not there. Views may do so at once: to
    PostgreSQL ``if not exists`` means that it looked before, not that nobody makes it meanwhile."""
    if conn.execute("select 1 from pg_namespace where nspname = %s", [schema]).fetchone():
        return
    with suppress(*MADE_MEANWHILE), conn.transaction():
        run(conn, [f"create schema if not exists {ident(schema)}"])


def make(conn: Connection, table: ViewTable, view: str, indexed: bool = True) -> None:
    """Make a generation's table. Raises ``ViewError`` for names that PostgreSQL has none of."""
    check_names(view, "postgres", table.columns)
    document = document_of(view, table.columns, table.key)
    said = described("table", table.schema, table.name, document)
    run(conn, [*table.create(indexed), said])
