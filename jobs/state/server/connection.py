"""Sessions with a state database, and psycopg's errors in terms of it.

Every session has the source's own text forms and settings that do not change what a query gives.
Errors never quote a row's values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import conninfo

from cdc.errors import HeadwaterError, RetryableError, StateError
from cdc.secret_values import latest
from cdc.source.errors import connection_error, place, translate
from cdc.source.postgres import CONNECT_TIMEOUT_S
from cdc.sslmode import tls_default
from jobs.spark.disk_full import told_no_room
from jobs.state.server.settings import SESSION_OPTIONS

Connection: TypeAlias = psycopg.Connection[Any]

_DISK_FULL: Final = "53100"
_ROLLED_BACK: Final = "40"
"""The class of SQLSTATE of deadlocks and of what cannot be serialized."""
_SYSTEM: Final = ("53", "58", "XX")
"""A quota, or a limit on the size of files, is not a full disk to the server."""
_ROOM: Final = "free space on the state database's disk: apply then continues by itself"


def connect(
    dsn: str, *, autocommit: bool = False, application_name: str = "headwater apply"
) -> Connection:
    """Open a session. Raises ``StateError`` for a wrong string, role or database, and
    ``RetryableError`` when the server is away."""
    parameters = _parameters(dsn, application_name)
    try:
        return psycopg.connect(conninfo.make_conninfo(**parameters), autocommit=autocommit)
    except psycopg.Error as error:
        raise _of_state(connection_error(str(error), parameters)) from error


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours; ``doing`` says what was being done."""
    try:
        yield
    except psycopg.Error as error:
        raise ours(error, doing) from error


def ours(error: Exception, doing: str) -> Exception:
    """An error of psycopg's in a session with the state database as one of ours; else as it is."""
    if not isinstance(error, psycopg.Error):
        return error
    if room := _no_room(error):
        return RetryableError(f"{doing}: the state database's disk: {room}", _ROOM)
    if (error.sqlstate or "").startswith(_ROLLED_BACK):
        return RetryableError(f"{doing}: another transaction conflicts", "wait: it is tried again")
    return _of_state(translate(error, doing))


def numbered(conn: Connection) -> psycopg.RawCursor[Any]:
    """A cursor whose statements have ``$1``, ``$2``: psycopg looks through the text of each long
    statement that names its parameters, whenever it is run."""
    return psycopg.RawCursor(conn)


def shown_place(dsn: str) -> str:
    """``user@host:port/database`` for messages, without a password."""
    return place(_parameters(dsn, ""))


def _parameters(dsn: str, application_name: str) -> dict[str, Any]:
    try:
        given = conninfo.conninfo_to_dict(latest(dsn))
    except psycopg.Error:  # its text may quote the password
        raise StateError(
            "apply.state_dsn is not a connection string",
            'write "postgresql://user:password@host:5432/database" or "host=... dbname=..."',
        ) from None
    defaults = {"connect_timeout": CONNECT_TIMEOUT_S, "keepalives_idle": 30}
    options = f"{given.get('options') or ''} {SESSION_OPTIONS}".strip()
    ours = {"application_name": application_name, "options": options}
    return {**defaults, **tls_default(given), **given, **ours}


def _no_room(error: psycopg.Error) -> str:
    """What the server says of its disk. Only faults of the system count: others quote values."""
    state = error.sqlstate or ""
    if state == _DISK_FULL:
        return "No space left on device"
    return told_no_room(error.diag.message_primary or "") if state.startswith(_SYSTEM) else ""


def _of_state(error: HeadwaterError) -> HeadwaterError:
    hint = error.hint.replace("source.dsn", "apply.state_dsn")
    if isinstance(error, RetryableError):
        return RetryableError(error.message, hint)
    return StateError(error.message, hint)
