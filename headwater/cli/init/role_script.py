"""The SQL that a DBA runs before ``headwater init``: roles, rights, schema and publication.

What follows from the catalog is read, which every role may do. Nothing is changed. The script can
be run again: what is there already stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cdc.config import Config, Source
from cdc.source.catalog import captured_tables
from cdc.source.columns.excluded_columns import column_lists
from cdc.source.columns.readable_columns import (
    readable_columns,
    select_grants,
    surplus_revokes,
)
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect, identifier, literal
from cdc.source.publication import changes, read_publication
from cdc.source.selection import Table

_HIDING: Final = "select relrowsecurity from pg_catalog.pg_class where oid = %s::oid"
_BODY: Final = "$headwater$"


class Roles(NamedTuple):
    """Empty: for ``capture`` the one of source.dsn, for ``publication_owner`` that of capture."""

    capture: str = ""
    publication_owner: str = ""


def role_script(config: Config, roles: Roles) -> Iterator[str]:
    """Its lines. Raises ``SourceError`` as ``captured_tables`` and ``changes`` do."""
    source = config.source
    with connect(source.dsn, application_name="headwater init") as conn:
        role = roles.capture or conn.info.user
        tables = captured_tables(conn, source)
        what = f"the role of Headwater needs on source {source.name}"
        yield from head(what, conn.info.dbname, role)
        yield "\n-- The role."
        yield from created(role)
        yield f"ALTER ROLE {identifier(role)} LOGIN REPLICATION;"
        yield from _reading(conn, source, tables, role)
        yield from _watching(role)
        yield from _schema(role)
        yield from _publication(conn, source, tables, role, roles)


def head(what: str, database: str, role: str) -> Iterator[str]:
    """What the script is for, and what a DBA does beside it."""
    yield f"-- What {what}, database {database}."
    yield "-- Run it as a superuser: psql -X -f FILE. It can be run again. Then give the role,"
    yield "-- if it is new, a password by \\password, and let pg_hba.conf admit it:"
    yield f"--   hostssl {database} {role} ADDRESS scram-sha-256"
    yield "\\set ON_ERROR_STOP on"


def created(role: str) -> Iterator[str]:
    """The role is made, if there is none of that name."""
    yield f"DO {_BODY} BEGIN"
    yield f"  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {literal(role)}) THEN"
    yield f"    CREATE ROLE {identifier(role)};"
    yield "  END IF;"
    yield f"END {_BODY};"


def _reading(conn: Connection, source: Source, tables: Sequence[Table], role: str) -> Iterator[str]:
    yield f"GRANT CONNECT ON DATABASE {identifier(conn.info.dbname)} TO {identifier(role)};"
    schemas = ", ".join(sorted({identifier(table.schema) for table in tables}))
    yield f"GRANT USAGE ON SCHEMA {schemas} TO {identifier(role)};"
    readable = readable_columns(conn, source, tables)
    revokes = surplus_revokes(conn, tables, readable, role)
    if revokes:
        yield "-- It could read more of these before. Nothing is read between the two."
        yield "BEGIN;"
    yield from (f"{one};" for one in (*revokes, *select_grants(tables, readable, role)))
    if revokes:
        yield "COMMIT;"
    with translated("looking for row-level security"):
        hiding = any(conn.execute(_HIDING, (one.oid,)).fetchone() == (True,) for one in tables)
    if hiding:  # a snapshot has all rows
        yield f"ALTER ROLE {identifier(role)} BYPASSRLS;"


def _watching(role: str) -> Iterator[str]:
    """A right that nothing needs, left to the DBA: it shows more than Headwater's part."""
    yield "\n-- Optional. With it `headwater lag` and the console also show what the WAL sender has"
    yield "-- sent and how long the oldest transaction is open. It is not granted, because the role"
    yield "-- could then read the queries of all sessions, with the values in them:"
    yield f"--   GRANT pg_read_all_stats TO {identifier(role)};"


def _schema(role: str) -> Iterator[str]:
    yield "\n-- Headwater's own schema, in which `headwater init` makes its tables."
    yield f"CREATE SCHEMA IF NOT EXISTS headwater AUTHORIZATION {identifier(role)};"


def _publication(
    conn: Connection, source: Source, tables: Sequence[Table], role: str, roles: Roles
) -> Iterator[str]:
    name = source.publication_name
    current = read_publication(conn, name)
    # Of a table that it has, the list is changed as `headwater check` says, or by `headwater init`:
    # between two statements of a script its changes would be lost.
    there = current.tables if current else frozenset()
    every = column_lists(conn, source, tables)
    lists = {table: of for table, of in every.items() if table not in there}
    statements = changes(name, current, tables, lists)
    yield "\n-- The publication. Its owner may remove tables from it, and drop it."
    if current is None:
        yield f"DO {_BODY} BEGIN"
        known = f"SELECT FROM pg_catalog.pg_publication WHERE pubname = {literal(name)}"
        yield f"  IF NOT EXISTS ({known}) THEN"
        yield from (f"    {one};" for one in statements)
        yield "  END IF;"
        yield f"END {_BODY};"
    else:
        yield from (f"{one};" for one in statements)
    owner = roles.publication_owner or role
    yield f"ALTER PUBLICATION {identifier(name)} OWNER TO {identifier(owner)};"
