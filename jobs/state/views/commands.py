"""What people ask of the process that keeps the views: ``headwater.commands``.

Who asks writes a row, and holds an advisory lock on it for as long as the answer is waited for: the
lock ends with the session, however that ends. The process takes the row, writes there how far it
is, and in the end what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from psycopg.types.json import Jsonb

from cdc.errors import FatalError, HeadwaterError, RetryableError, UsageError
from jobs.state.server.connection import Connection, translated

_ASKERS: Final = 0x6865_6164
"""The first half of the askers' locks, beside that of ``jobs.state.server.apply_lock``, which has
one part."""
_REMEMBERED: Final = "interval '1 day'"
_KINDS: Final[dict[str, type[HeadwaterError]]] = {
    "usage": UsageError,
    "passes": RetryableError,
    "fatal": FatalError,
}


@dataclass(frozen=True, slots=True)
class Command:
    """``id`` is 0 before it is asked."""

    kind: str
    view: str
    arguments: dict[str, Any]
    id: int = 0


class Answer(NamedTuple):
    """How far a command is. ``result`` is there before ``done`` where what was asked for lasts
    until nobody waits any more. ``expected`` rows are 0 where nobody knows how many there are."""

    taken: bool
    done: bool
    steps: Sequence[str]
    rows: int
    expected: int
    result: dict[str, Any] | None
    error: HeadwaterError | None


def ask(conn: Connection, command: Command) -> int:
    """Write a command, and hold its lock with this session, which is in autocommit mode; its id."""
    with translated("asking the running apply"), conn.transaction():
        row = conn.execute(
            b"insert into headwater.commands (kind, view, arguments) values (%s, %s, %s) "
            b"returning id",
            (command.kind, command.view, Jsonb(command.arguments)),
        ).fetchone()
        assert row is not None, "what is inserted is returned"
        hold(conn, row[0])
    return int(row[0])


def hold(conn: Connection, command: int) -> None:
    """Say that somebody waits for a command, for as long as this session lives."""
    with translated("waiting for the running apply"):
        conn.execute(b"select pg_catalog.pg_advisory_lock(%s, %s)", (_ASKERS, _place(command)))


def answer(conn: Connection, command: int) -> Answer:
    """What there is of it by now. Raises ``RetryableError`` for one that nobody remembers."""
    query = (
        b"select taken_at is not null, done_at is not null, progress, result, error "
        b"from headwater.commands where id = %s"
    )
    with translated("looking how far the running apply is"):
        row = conn.execute(query, (command,), prepare=True).fetchone()
    if row is None:
        raise RetryableError("the state database has lost the command", "run it again")
    taken, done, progress, result, error = row
    fault = None
    if error is not None:
        told = result or {}
        fault = _KINDS[told.get("kind", "fatal")](error, told.get("hint", ""))
    steps, rows = progress.get("steps", []), progress.get("rows", 0)
    return Answer(taken, done, steps, rows, progress.get("expected", 0), result, fault)


def take(conn: Connection) -> list[Command]:
    """The commands that nobody has taken yet, in their order."""
    query = (
        b"update headwater.commands set taken_at = now() "
        b"where done_at is null and taken_at is null returning id, kind, view, arguments"
    )
    rows = conn.execute(query, prepare=True).fetchall()
    return [Command(kind, view, arguments, id_) for id_, kind, view, arguments in sorted(rows)]


def report(conn: Connection, command: int, steps: Sequence[str], rows: int, expected: int) -> None:
    """Write how far it is."""
    progress = Jsonb({"steps": list(steps), "rows": rows, "expected": expected})
    query = b"update headwater.commands set progress = %s where id = %s and done_at is null"
    conn.execute(query, (progress, command))


def lasts(conn: Connection, command: int, result: dict[str, Any]) -> None:
    """What was asked for is there, until nobody waits for it any more."""
    query = b"update headwater.commands set result = %s where id = %s and done_at is null"
    conn.execute(query, (Jsonb(result), command))


def finish(conn: Connection, command: int, result: dict[str, Any]) -> None:
    """It is done."""
    query = (
        b"update headwater.commands set result = %s, done_at = now() "
        b"where id = %s and done_at is null"
    )
    conn.execute(query, (Jsonb(result), command))


def fail(conn: Connection, command: int, error: HeadwaterError) -> None:
    """It cannot be done."""
    kind = next(name for name, of in _KINDS.items() if isinstance(error, of) or name == "fatal")
    query = (
        b"update headwater.commands set error = %s, result = %s, done_at = now() "
        b"where id = %s and done_at is null"
    )
    told = Jsonb({"kind": kind, "hint": error.hint})
    conn.execute(query, (error.message, told, command))


def end_all(conn: Connection, commands: Iterable[int], error: HeadwaterError) -> None:
    """Those of these commands that are not done are not done any more."""
    with translated("ending commands"):
        for command in commands:
            fail(conn, command, error)


def end_left(conn: Connection, error: HeadwaterError) -> None:
    """Tell those who wait for a process that has ended; forget what was done long ago.

    What nobody has taken is for this process, if somebody waits for it.
    """
    open_ = b"select id, taken_at is not null from headwater.commands where done_at is null"
    left = dict(conn.execute(open_).fetchall())
    there = waited_for(conn, left)
    for command, taken in left.items():
        if taken or command not in there:
            fail(conn, command, error)
    conn.execute(f"delete from headwater.commands where done_at < now() - {_REMEMBERED}".encode())


def waited_for(conn: Connection, commands: Iterable[int]) -> set[int]:
    """Those of these commands that somebody still waits for."""
    rows = conn.execute(
        b"select objid::bigint from pg_catalog.pg_locks where locktype = 'advisory' and granted "
        b"and objsubid = 2 and classid::bigint = %s and database = "
        b"(select oid from pg_catalog.pg_database where datname = current_database())",
        (_ASKERS,),
    )
    held = {place for (place,) in rows}
    return {command for command in commands if _place(command) in held}


def _place(command: int) -> int:
    """The second half of a command's lock: an ``int4``."""
    return command & 0x7FFF_FFFF
