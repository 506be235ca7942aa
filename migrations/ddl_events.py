"""The event trigger that tells capture of DDL: put in place and taken away, on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import psycopg

from cdc.errors import SourceError
from migrations.runner import LOCK

_FILE: Final = Path(__file__).with_name("ddl_events.sql")
_REMOVE: Final = """
drop event trigger if exists headwater_ddl;
drop event trigger if exists headwater_drop;
drop function if exists headwater.ddl_event();
drop function if exists headwater.ddl_said(text, oid, int);
drop function if exists headwater.ddl_columns(oid);
drop schema if exists headwater_ddl cascade;
"""
_LESSER_OWNER: Final = """
select o.rolname
from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid = n.nspowner
where n.nspname = 'headwater_ddl' and not o.rolsuper and o.rolname <> current_user
"""


def set_ddl_events(conn: psycopg.Connection[Any], wanted: bool) -> None:
    """Install the trigger or remove it, all or nothing. The publication must exist.

    Raises ``SourceError`` for a role that may not: event triggers are a superuser's. Likewise where
    another role owns the schema of the trigger's functions: it could change what they do.
    """
    if row := conn.execute(_LESSER_OWNER).fetchone():
        raise SourceError(
            f"DDL events: the schema headwater_ddl belongs to {row[0]}, which is not a superuser",
            "drop or rename it: its owner could change functions that run as a superuser",
        )
    statements = _FILE.read_text(encoding="utf-8") if wanted else _REMOVE
    try:
        with conn.transaction():
            conn.execute("select pg_catalog.pg_advisory_xact_lock(%s)", (LOCK,))
            conn.execute(statements.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"DDL events: {error.diag.message_primary}",
            "run `headwater init --ddl-events` once with a superuser in source.dsn, or leave "
            "out --ddl-events",
        ) from error
    except psycopg.Error as error:
        raise SourceError(f"DDL events: {error}") from error
