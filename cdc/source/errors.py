"""psycopg's and libpq's errors in Headwater's terms: what to do about each, and whether it passes.

Messages name host, port, user and database, never a password, and never the text of a data error,
which would quote a row's values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.pq.abc import PGresult

from cdc.errors import HeadwaterError, RetryableError, SourceError

_FATAL_ON_CONNECT = {
    "password authentication failed": "check user and password of source.dsn",
    "no password supplied": "put the password into source.dsn, PGPASSWORD or ~/.pgpass",
    "no pg_hba.conf entry": "allow this host, user and database in pg_hba.conf and reload",
    "pg_hba.conf rejects": "allow this host, user and database in pg_hba.conf and reload",
    "authentication failed": "check user and password of source.dsn",
    "not permitted to log in": "run `ALTER ROLE ... LOGIN`, or name another role in source.dsn",
    r'role "[^"]*" does not exist': "run `CREATE ROLE ... LOGIN`, or correct source.dsn's user",
    r'database "[^"]*" does not exist': "correct the database of source.dsn, or create it",
    "does not exist": "check user and database of source.dsn",
    "permission denied for database": "grant CONNECT ON DATABASE ... to the role of source.dsn",
    "permission denied to start WAL sender": "run `ALTER ROLE ... REPLICATION`",
    "must be superuser or replication role": "run `ALTER ROLE ... REPLICATION`",
    "is not currently accepting connections": "run `ALTER DATABASE ... ALLOW_CONNECTIONS true`",
    "certificate": "check sslmode and sslrootcert of source.dsn",
    "server does not support SSL": "set `ssl = on` in PostgreSQL; in a network that nobody else "
    "can listen to, add sslmode=disable to source.dsn",
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
_UNREACHABLE = "check that PostgreSQL is running there and listens on that address"
# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html
_RETRYABLE_STATES = ("08", "40", "53100", "53200", "53300", "55P03", "57P01", "57P02", "57P03")
_HINTS = {
    "42501": "grant the privilege (for row-level security: BYPASSRLS), or use another role",
    "22021": "find and correct the text that is not in the database's encoding",
    "22P05": "find and correct the text with characters that UTF-8 does not have",
    "22P02": "find and correct the value that is not in the format of its type",
    "22007": "find and correct the date or time that is not in the format of its type",
    "55P03": "try again when the session that holds a lock on it has ended",
}


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
    if _quotes_password(reason, parameters):
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


def _quotes_password(reason: str, parameters: dict[str, Any]) -> bool:
    """Whether the password stands elsewhere than in a quoted name that the message shows anyway,
    and in PostgreSQL's own words: a short password may be part of either."""
    password = str(parameters.get("password") or "")
    rest = reason
    for name in ("user", "dbname", "host"):
        if shown := parameters.get(name):
            rest = rest.replace(f'"{shown}"', '""')
    for words in (*_FATAL_ON_CONNECT, *_PASSING_ON_CONNECT):  # a pattern may hold a name
        rest = rest.replace(words, "")
    return bool(password) and password in rest


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


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE behind one of our errors, ``""`` when the server gave none."""
    cause = error.__cause__
    return (cause.sqlstate or "") if isinstance(cause, psycopg.Error) else ""


def failure(result: PGresult | None) -> psycopg.Error:
    """psycopg's error for a result that is none, or not what was asked for."""
    if result is None:
        return psycopg.OperationalError("the connection was lost")
    return errors.error_from_result(result)
