"""Connections to PostgreSQL through psycopg, and psycopg's errors in Headwater's terms.

Every connection speaks the same session settings, ``WIRE_OPTIONS``, so a value has one text form
whether the stream, a snapshot or a check reads it. Errors name host, port, user and database,
never a password, and never the message of a data error, which would quote a row's values.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg import conninfo, errors, pq
from psycopg.pq.abc import PGconn, PGresult

from cdc.errors import HeadwaterError, RetryableError, SourceError

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
# Defaults of a role or a database that our statements would fail under, or read otherwise.
_DEFAULTS_OF_OURS = (
    "-c default_transaction_read_only=off -c default_transaction_deferrable=off "
    r"-c default_transaction_isolation=read\ committed -c quote_all_identifiers=off "
    "-c transform_null_equals=off -c array_nulls=on"
)
_REPLICATION_OPTIONS = f"{WIRE_OPTIONS} {_DEFAULTS_OF_OURS}"
_ORDINARY_OPTIONS = _REPLICATION_OPTIONS.replace("-c lc_monetary=C", "").strip()
_NEWER_17 = 170_000

_FATAL_ON_CONNECT = {
    "password authentication failed": "check user and password of source.dsn",
    "no password supplied": "put the password into source.dsn, PGPASSWORD or ~/.pgpass",
    "no pg_hba.conf entry": "allow this host, user and database in pg_hba.conf and reload",
    "pg_hba.conf rejects": "allow this host, user and database in pg_hba.conf and reload",
    "authentication failed": "check user and password of source.dsn",
    "not permitted to log in": "ALTER ROLE ... LOGIN, or name another role in source.dsn",
    r'role "[^"]*" does not exist': "CREATE ROLE ... LOGIN, or correct the user of source.dsn",
    r'database "[^"]*" does not exist': "correct the database of source.dsn, or create it",
    "does not exist": "check user and database of source.dsn",
    "permission denied for database": "GRANT CONNECT ON DATABASE ... TO the role of source.dsn",
    "permission denied to start WAL sender": "ALTER ROLE ... REPLICATION",
    "must be superuser or replication role": "ALTER ROLE ... REPLICATION",
    "is not currently accepting connections": "ALTER DATABASE ... ALLOW_CONNECTIONS true",
    "certificate": "check sslmode and sslrootcert of source.dsn",
    "server does not support SSL": "check sslmode of source.dsn",
}
_PASSING_ON_CONNECT = {
    "max_wal_senders": "raise max_wal_senders, or stop a replication client that is not needed",
    "too many": "raise max_connections, or end connections that are not needed",
    "connection slots": "raise max_connections, or end connections that are not needed",
    "starting up": "wait until the server accepts connections",
    "recovery": "wait until the server accepts connections",
    "shutting down": "start the server again",
    "translate host name": "check the host name of source.dsn",
    "resolve host": "check the host name of source.dsn",
}
_UNREACHABLE = "is PostgreSQL running there, and does it listen on that address?"
# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html
_RETRYABLE_STATES = ("08", "40", "53100", "53200", "53300", "55P03", "57P01", "57P02", "57P03")
_HINTS = {
    "42501": "grant the privilege (for row-level security: BYPASSRLS), or use another role",
    "22021": "a text there is not of the database's encoding: find it and set it right",
    "22P05": "a text there has characters that UTF-8 has not: find it and set it right",
    "22P02": "a value there has not the form of its type",
    "22007": "a date or time there has not the form of its type",
    "55P03": "another session holds a lock on it; try again when that is gone",
}


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
    """libpq's connection parameters: those of ``dsn``, completed with ours.

    Raises ``SourceError`` for a string that libpq cannot parse; it says nothing of the content,
    which may hold the password.
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
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
    return {**defaults, **given, **ours}


def place(parameters: dict[str, Any]) -> str:
    """``user@host:port/database`` for messages; libpq's defaults are filled in, no password."""
    known = {
        option.keyword.decode(): option.val.decode() if option.val else ""
        for option in pq.Conninfo.get_defaults()
    }
    known |= {name: str(value) for name, value in parameters.items() if value is not None}
    hosts = (known.get("host") or known.get("hostaddr") or "local socket").split(",")
    ports = (known.get("port") or "5432").split(",")
    where = ",".join(f"{host}:{ports[i % len(ports)]}" for i, host in enumerate(hosts))
    user = known.get("user", "")
    return f"{user}@{where}/{known.get('dbname') or user}"


def connection_error(text: str, parameters: dict[str, Any]) -> HeadwaterError:
    """Why a connection could not be opened, from libpq's text (there is no SQLSTATE for it)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
    failed = [line.rpartition(" failed: ")[2] for line in lines if " failed: " in line]
    reason = next(iter(told or failed[::-1] or lines[::-1]), "no reason given")
    password = str(parameters.get("password") or "")
    if password and password in reason:
        reason = "(text withheld: it quotes the password)"
    message = f"cannot connect to PostgreSQL at {place(parameters)}: {reason}"
    for part, hint in _PASSING_ON_CONNECT.items():
        if part in text:
            return RetryableError(message, hint)
    for pattern, hint in _FATAL_ON_CONNECT.items():
        if re.search(pattern, text):
            role = place(parameters).partition("@")[0]
            return SourceError(message, hint.replace("ROLE ...", f"ROLE {role}"))
    return RetryableError(message, _UNREACHABLE)


@contextmanager
def translated(doing: str, hint: str = "") -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours; ``doing`` says what was being done."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing, hint) from error


def translate(error: psycopg.Error, doing: str, hint: str = "") -> HeadwaterError:
    """One of our errors for one of psycopg's."""
    state = error.sqlstate or ""
    hint = hint or _HINTS.get(state, "")
    if state.startswith(("22", "23")):  # data errors quote values
        return SourceError(f"{doing}: data error {state}", hint)
    reason = error.diag.message_primary or " ".join(str(error).split())
    if not state or state.startswith(_RETRYABLE_STATES):
        lost = isinstance(error, errors.OperationalError) or bool(state)
        kind = RetryableError if lost else SourceError
        return kind(f"{doing}: {reason}", hint)
    return SourceError(f"{doing}: {reason}", hint)


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


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE behind one of our errors, ``""`` when the server gave none."""
    cause = error.__cause__
    return (cause.sqlstate or "") if isinstance(cause, psycopg.Error) else ""


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


def failure(result: PGresult | None) -> psycopg.Error:
    """psycopg's error for a result that is none, or not what was asked for."""
    if result is None:
        return psycopg.OperationalError("the connection was lost")
    return errors.error_from_result(result)
