"""The event trigger that tells capture of DDL: put in place and taken away, on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import psycopg

from cdc.errors import SourceError

_FILE: Final = Path(__file__).with_name("ddl_events.sql")
_REMOVE: Final = """
drop event trigger if exists headwater_ddl;
drop event trigger if exists headwater_drop;
drop function if exists headwater.ddl_event();
drop function if exists headwater.ddl_said(text, oid, int);
drop function if exists headwater.ddl_columns(oid);
"""


def set_ddl_events(conn: psycopg.Connection[Any], wanted: bool) -> None:
    """Install the trigger or remove it, all or nothing. The publication must exist.

    Raises ``SourceError`` for a role that may not: event triggers are a superuser's.
    """
    statements = _FILE.read_text(encoding="utf-8") if wanted else _REMOVE
    try:
        with conn.transaction():
            conn.execute(statements.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"DDL events: {error.diag.message_primary}",
            "run `headwater init --ddl-events` once with a superuser's source.dsn, or leave it out",
        ) from error
    except psycopg.Error as error:
        raise SourceError(f"DDL events: {error}") from error
