"""A view's rows and changes as who serves them reads them, in sessions of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

from cdc.config import Config
from cdc.errors import RetryableError
from jobs.state.feeds.feed_log import of_tables
from jobs.state.server.connection import Connection, connect, translated
from jobs.state.server.database import running_dsn
from jobs.state.server.location import home_of, recorded_place
from jobs.state.views.view_record import FEED_LOG_SCHEMA, FEED_ROWS_SCHEMA

AT_ONCE: Final = 1_000
AT_ONCE_BYTES: Final = 4 << 20
_FEED: Final = (
    "select f.view_id, v.name, v.generation, v.sql, v.key, f.columns, f.epoch, f.trimmed, "
    "f.last_seq, f.lsn from headwater.feeds f join headwater.views v on v.id = f.view_id "
    "where f.name = %s and f.shown"
)


class FeedState(NamedTuple):
    """The feed of the generation that readers of a view see, as it is at one moment. ``columns``
    as ``feed_tables`` writes them; changes above ``trimmed`` are kept, ``last`` is the newest."""

    view_id: int
    view: str
    generation: int
    sql: str
    key: tuple[str, ...]
    columns: tuple[dict[str, Any], ...]
    epoch: str
    trimmed: int
    last: int
    lsn: int


class LoggedChange(NamedTuple):
    """``told`` and ``row`` are the JSON of key and row: of one that is gone, what it was last."""

    seq: int
    told: str
    row: str
    op: str
    lsn: int
    ordinal: int
    at: datetime


class FeedPart(NamedTuple):
    """Some of a log from a number on. ``epoch`` is "" where readers see no such feed any more;
    ``is_known``: what stands before that number is a change that was written here."""

    epoch: str
    trimmed: int
    is_known: bool
    changes: Sequence[LoggedChange]


GONE: Final = FeedPart("", 0, False, ())


@contextmanager
def feed_session(config: Config) -> Iterator[Connection]:
    """A session with the state database in autocommit mode. Raises ``RetryableError`` where it is
    not to be reached from here, ``StateError`` for a wrong ``apply.state_dsn``."""
    dsn = running_dsn(config)
    if not dsn:
        here = recorded_place(home_of(config.apply.state, config.source.name)) is not None
        raise RetryableError(
            "the state database, which keeps the changes of views, "
            + ("does not run" if here else "is not below apply.state on this machine"),
            "start `headwater apply`"
            + ("" if here else " here, or set apply.state_dsn, which other machines reach"),
        )
    with connect(dsn, autocommit=True, application_name="headwater serve") as conn:
        yield conn


def read_feed(conn: Connection, view: str) -> FeedState | None:
    """None where what readers of the view see was built without one."""

    def ask() -> FeedState | None:
        row = conn.execute(_FEED.encode(), (view,), prepare=True).fetchone()
        return None if row is None else _state(row)

    return of_tables(f"looking for the changes of view {view}", ask, None)


def read_changes_from(
    conn: Connection, view_id: int, number: int, at_most: int = AT_ONCE
) -> FeedPart:
    """Some of the changes that are numbered from ``number`` on, in one snapshot of all tables."""
    log = f"{FEED_LOG_SCHEMA}.v{view_id}"
    some = f"select * from {log} where seq >= %(from)s order by seq limit {at_most}"
    query = (
        "select f.epoch, f.shown, f.trimmed, %(from)s - 1 in (f.trimmed, f.last_seq) "
        f"or exists (select from {log} where seq = %(from)s - 1), "
        "s.seq, s.told, s.row, s.op, s.lsn, s.ordinal, s.at "
        "from headwater.feeds f left join (select *, sum(length(row)) over (order by seq) "
        f"- length(row) as before from ({some}) o) s on s.before < {AT_ONCE_BYTES} "
        "where f.view_id = %(id)s order by s.seq"
    )

    def ask() -> FeedPart:
        rows = conn.execute(
            query.encode(), {"from": number, "id": view_id}, prepare=True
        ).fetchall()
        if not rows or not rows[0][1]:
            return GONE
        epoch, _, trimmed, is_known = rows[0][:4]
        changes = [LoggedChange(*row[4:]) for row in rows if row[4] is not None]
        return FeedPart(epoch, trimmed, is_known, changes)

    return of_tables("reading the changes of a view", ask, GONE)


def read_rows(
    config: Config,
    view: str,
    begin: Callable[[FeedState], None],
    take: Callable[[Sequence[tuple[str, str, int, int]]], None],
) -> FeedState | None:
    """Give ``take`` all rows that the store holds at one moment, by parts: the JSON of each one's
    key and of itself, and its position. The changes behind ``last`` of what is returned, and
    ``begin`` is called with, follow. None where the view has no feed."""
    doing = f"reading the rows of view {view}"
    with feed_session(config) as conn, translated(doing), conn.transaction():
        conn.execute(b"set transaction isolation level repeatable read, read only")
        found = read_feed(conn, view)
        if found is None:
            return None
        begin(found)
        query = f"select told, row, lsn, ordinal from {FEED_ROWS_SCHEMA}.v{found.view_id}"
        with conn.cursor(name="headwater_rows") as cursor:
            cursor.execute(query.encode())
            while rows := cursor.fetchmany(AT_ONCE):
                take(rows)
    return found


def _state(row: Sequence[Any]) -> FeedState:
    view_id, view, generation, sql, key, columns, epoch, trimmed, last, lsn = row
    return FeedState(
        view_id, view, generation, sql, tuple(key), tuple(columns), epoch, trimmed, last, lsn
    )
