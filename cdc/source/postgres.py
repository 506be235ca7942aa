"""Connections to PostgreSQL through psycopg, and what is asked of any of them.

Every connection speaks the same session settings, ``WIRE_OPTIONS``, so a value has one text form
whether the stream, a snapshot or a check reads it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
from psycopg import conninfo, errors, pq
from psycopg.pq.abc import PGconn

from cdc.errors import RetryableError, SourceError
from cdc.secret_values import latest
from cdc.source.errors import connection_error, failure, translate, translated
from cdc.sslmode import tls_default

Connection: TypeAlias = psycopg.Connection[Any]

LOCK_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_S = 10

_WIRE_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "client_encoding": "UTF8",
    # Decide the text of `money` and of `regclass` and its kin: fixed, so that they are the same
    # in every session whatever the role's or the database's defaults say.
    "lc_monetary": "C",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    # A policy that hides rows from the snapshot is an error, never a smaller snapshot.
    "row_security": "off",
    # Ours are long-lived sessions: a server default that ends them would stall the stream.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": str(LOCK_TIMEOUT_MS),
}
WIRE_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _WIRE_SETTINGS.items())
"""Session settings as libpq's ``options``."""
STATEMENT_SETTINGS = {
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "quote_all_identifiers": "off",
    "transform_null_equals": "off",
    "array_nulls": "on",
}
"""Against defaults of a role or a database that our statements would fail under, or read
otherwise."""
STATEMENT_OPTIONS = " ".join(
    f"-c {name}={value}".replace("read committed", r"read\ committed")
    for name, value in STATEMENT_SETTINGS.items()
)
_REPLICATION_OPTIONS = f"{WIRE_OPTIONS} -c default_transaction_read_only=off {STATEMENT_OPTIONS}"
_ORDINARY_OPTIONS = _REPLICATION_OPTIONS.replace("-c lc_monetary=C", "").strip()
_NEWER_17 = 170_000


def connect(
    dsn: str,
    *,
    autocommit: bool = True,
    application_name: str = "headwater",
    replication: bool = False,
) -> Connection:
    """Open a session with ``WIRE_OPTIONS``; with ``replication`` it takes replication commands.

    Raises ``SourceError`` when the connection string, the role or the database is wrong, and
    ``RetryableError`` when the server cannot be reached or is not ready.
    """
    parameters = connection_parameters(dsn, application_name, replication=replication)
    try:
        conn = psycopg.connect(conninfo.make_conninfo(**parameters), autocommit=True)
        if not replication:
            # Not at the start: the server's own setting stays known, as what RESET would bring.
            conn.execute("set lc_monetary to 'C'")
        if conn.info.server_version >= _NEWER_17:  # a setting that older servers do not know
            conn.execute("set transaction_timeout to 0")
        conn.autocommit = autocommit
        return conn
    except psycopg.Error as error:
        raise connection_error(str(error), parameters) from None


def connection_parameters(
    dsn: str, application_name: str = "headwater", *, replication: bool = False
) -> dict[str, Any]:
    """libpq's connection parameters: those of ``dsn``, completed with ours. A server on another
    machine is reached by TLS unless they name another ``sslmode``.

    Raises ``SourceError`` for a string that libpq cannot parse; it says nothing of the content,
    which may hold the password.
    """
    try:
        given = conninfo.conninfo_to_dict(latest(dsn))
    except psycopg.Error:
        raise SourceError(
            "source.dsn is not a connection string",
            'write "postgresql://user:password@host:5432/database" or "host=... dbname=..."; '
            "percent-encode special characters in a URL",
        ) from None
    defaults = {"connect_timeout": CONNECT_TIMEOUT_S, "keepalives_idle": 30}
    pinned = _REPLICATION_OPTIONS if replication else _ORDINARY_OPTIONS
    options = f"{given.get('options') or ''} {pinned}".strip()
    ours: dict[str, Any] = {"application_name": application_name, "options": options}
    if replication:
        ours["replication"] = "database"
    return {**defaults, **tls_default(given), **given, **ours}


def plan_fault(conn: Connection, query: str) -> str:
    """Why PostgreSQL does not plan a query, in its words; empty if it does, or if a right or a lock
    is in the way, which says nothing of the query. Raises ``RetryableError`` when it is away."""
    try:
        with conn.transaction():
            conn.execute("set local lock_timeout = '1s'")
            conn.execute(f"explain {query}".encode())
    except (errors.InsufficientPrivilege, errors.LockNotAvailable):
        return ""
    except psycopg.Error as error:
        if isinstance(found := translate(error, "planning a query"), RetryableError):
            raise found from error
        return (error.diag.message_primary or str(error)).partition("\n")[0]
    return ""


def planned_rows(conn: Connection, query: str) -> int:
    """How many rows a query gives, as the planner thinks. ``query`` is one that ``plan_fault`` says
    nothing of; 0 if a right or a lock is in the way."""
    try:
        with conn.transaction():
            conn.execute("set local lock_timeout = '1s'")
            row = conn.execute(f"explain (format json) {query}".encode()).fetchone()
    except (errors.InsufficientPrivilege, errors.LockNotAvailable):
        return 0
    return int(row[0][0]["Plan"]["Plan Rows"]) if row else 0


def identifier(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string constant for SQL where parameters are not possible (replication commands)."""
    return "'" + text.replace("'", "''") + "'"


def run_watched(
    conn: Connection,
    command: str,
    doing: str,
    *,
    timeout_s: float,
    on_wait: Callable[[float], None],
    every_s: float = 2.0,
) -> tuple[bytes | None, ...]:
    """Run a command that may wait inside the server, and return its first row as text.

    ``on_wait(waited_s)`` is called every ``every_s`` while there is no answer. After
    ``timeout_s`` the command is cancelled, the session closed and ``SourceError`` raised. After
    success nothing else is sent: an exported snapshot lives until the session's next command.
    """
    started = time.monotonic()
    with translated(doing):
        conn.pgconn.send_query(command.encode())
        try:
            while (waited_s := time.monotonic() - started) < timeout_s:
                conn.pgconn.consume_input()
                if not conn.pgconn.is_busy():
                    return _first_row(conn.pgconn)
                if not select.select([conn.pgconn.socket], [], [], every_s)[0]:
                    on_wait(waited_s)
        except BaseException:
            # A server process that waits for a lock does not notice that its client is gone.
            _abandon(conn)
            raise
        _abandon(conn)
    raise SourceError(
        f"{doing}: no answer within {timeout_s:.0f} s",
        "end the transactions that block it, then try again",
    )


def _abandon(conn: Connection) -> None:
    conn.cancel_safe()
    conn.close()


def _first_row(connection: PGconn) -> tuple[bytes | None, ...]:
    result = connection.get_result()
    while connection.get_result() is not None:  # to the end of the command
        pass
    if result is None or result.status != pq.ExecStatus.TUPLES_OK:
        raise failure(result)
    return tuple(result.get_value(0, i) for i in range(result.nfields))
