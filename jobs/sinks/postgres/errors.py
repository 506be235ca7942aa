"""What a PostgreSQL database that holds views refuses, and what that means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from cdc.errors import HeadwaterError, RetryableError, SinkError
from jobs.spark.disk_full import told_no_room

_NAME: Final = re.compile(r' "[^"]*"(?= (?:does not exist|is not))')
# Of a connection there is only a text; these will not pass by themselves.
_REFUSED: Final = {
    "password authentication failed": "check user and password of the store's dsn",
    "no password supplied": "put the password into the store's dsn, PGPASSWORD or ~/.pgpass",
    "pg_hba.conf": "allow this host, user and database in pg_hba.conf and reload",
    "authentication failed": "check user and password of the store's dsn",
    "not permitted to log in": "run `ALTER ROLE ... LOGIN`, or name another role in its dsn",
    "role does not exist": "run `CREATE ROLE ... LOGIN`, or correct the user of the store's dsn",
    "database does not exist": "run `CREATE DATABASE ...`, or correct its name in the dsn",
    "permission denied": "grant CONNECT ON DATABASE ... to the role of the store's dsn",
    "no such database": "correct the database of the store's dsn, or give it to the pooler",
    "no such user": "correct the user of the store's dsn, or give it to the pooler",
    "database is not currently accepting": "run `ALTER DATABASE ... ALLOW_CONNECTIONS true`",
    "certificate": "check sslmode and sslrootcert of the store's dsn",
    "does not support SSL": "set `ssl = on` there; in a network that nobody else can listen to, "
    "add sslmode=disable to the store's dsn",
    "does not exist": "correct the store's dsn, or make there what it names",
}
MADE_MEANWHILE: Final = (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation)
"""What ``create schema if not exists`` raises when another session makes it at that moment."""
_FULL: Final = ("too many", "connection slots", "no more connections")
# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html
_PASSING: Final = ("08", "57")
_DISK_FULL: Final = "53100"
_OF_FILES: Final = ("58030", "XX000")
"""What a quota is to the server, or a limit on the size of files: not a full disk."""
_NO_WRITES: Final = {
    _DISK_FULL: "free space on its disk, which is full",
    "53200": "give it more memory: it has run out",
    "53300": "raise max_connections, or end connections that are not needed",
    "53400": "see its log: a limit of its configuration is reached",
    "25006": "point the store's dsn at the primary: this server is read-only",
    "55P03": "end the session that holds a lock the view needs",
}
_HINTS: Final = {
    "42501": "grant USAGE, CREATE ON SCHEMA ... to the role of the dsn, and let it own its tables",
    "3F000": "create the schema, or grant CREATE ON DATABASE ... to the role of the store's dsn",
    "2BP01": "drop what depends on the view, and create it again on the new one",
    "42701": "give the column another name with AS: PostgreSQL has one like it in every table",
    "42P01": "run `headwater view rebuild`, which fills it again from a snapshot",
}
_OF_ROWS: Final = ("22", "23", "54")
"""Data errors, constraints, limits of a row: their texts quote values."""
_COLUMN: Final = re.compile(r"column (\S+?)(?::|$)")


class RefusingError(RetryableError):
    """The server answers, but takes no writes for now."""


def not_let_in(place: str, text: str) -> HeadwaterError:
    """Why a connection could not be opened, from libpq's text."""
    plain = _NAME.sub("", text)
    for part, hint in _REFUSED.items():
        if part in plain:
            return SinkError(f"{place} refused the connection: {part}", hint)
    if any(part in text for part in _FULL):
        return RetryableError(f"{place} accepts no more connections", _NO_WRITES["53300"])
    if "session is read-only" in text or "is not read-write" in text:
        return RefusingError(f"{place} accepts no writes", _NO_WRITES["25006"])
    return RetryableError(f"{place} does not answer", "start it, or correct the store's dsn")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, place) from error


def _translated(error: psycopg.Error, place: str) -> HeadwaterError:
    state = error.sqlstate or ""
    said = (error.diag.message_primary or "").splitlines()
    is_full = state in _OF_FILES and bool(said and told_no_room(said[0]))
    known = _DISK_FULL if is_full else state
    if known in _NO_WRITES:
        return RefusingError(f"{place} accepts no writes ({state})", _NO_WRITES[known])
    if state.startswith("40"):
        return RetryableError(f"{place} is busy ({state})")
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state
    if lost or state.startswith(_PASSING):
        return RetryableError(f"{place} does not answer", "start it, or correct the store's dsn")
    if state.startswith(_OF_ROWS) or not state:
        return SinkError(f"{place} refused a write: {of_row(error)}")
    return SinkError(f"{place} refused: {said[0] if said else state}", _HINTS.get(state, ""))


def is_of_row(error: psycopg.Error) -> bool:
    """Whether a single row may be the cause."""
    return (error.sqlstate or "").startswith(_OF_ROWS)


def of_row(error: psycopg.Error) -> str:
    """Why a row was refused: the condition, and the column or constraint, without the value."""
    name = type(error).__name__
    named = error.diag.constraint_name or error.diag.column_name
    if named is None and (match := _COLUMN.search(error.diag.context or "")):
        named = match[1]
    return f"{error.sqlstate} {name}" + (f" in {named}" if named else "")
