"""What is kept for readers of a view's changes, in a real state database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.state.batch.stream_offsets import Progress
from jobs.state.feeds import feed_log
from jobs.state.feeds.feed_log import RowChange, append_changes, trim_logs
from jobs.state.feeds.feed_reader import GONE, FeedPart, read_changes_from, read_feed
from jobs.state.feeds.feed_tables import (
    Feed,
    begin_filling,
    drop_feed,
    end_filling,
    make_feed,
    show_feed,
)
from jobs.state.server.connection import Connection, connect
from jobs.state.server.migration import migrate
from jobs.state.views.view_record import add_view, forget_view
from tests.support.servers.postgres import fresh_database


@pytest.fixture
def state(postgres: str) -> Iterator[Connection]:
    with fresh_database(postgres) as dsn, connect(dsn, autocommit=True) as conn:
        migrate(conn)
        yield conn


def made(conn: Connection, generation: int) -> Feed:
    """A generation of a view, which readers see."""
    record = add_view(conn, "sales", generation, "select", ["a", "b"], "cache")
    make_feed(conn, record.id, "sales")
    show_feed(conn, "sales", record.id)
    return Feed(record.id, (), ("a", "b"))


def written(conn: Connection, feed: Feed, lsn: int, **rows: str | None) -> None:
    """Rows by key, None where it is gone."""
    changes = [
        RowChange((key, "'"), f'{{"a":"{key}"}}', None if row is None else f'{{"n":{row}}}')
        for key, row in rows.items()
    ]
    with conn.transaction():
        append_changes(conn, feed, changes, Progress(1, lsn, lsn + 1, None))


def told(part: FeedPart) -> list[tuple[str, str, str]]:
    return [(one.op, one.told[6], one.row) for one in part.changes]


def test_what_differs_is_told_in_the_order_of_writes_and_nothing_else(state: Connection) -> None:
    feed = made(state, 1)
    written(state, feed, 10, x="1", y="1")
    written(state, feed, 11, x="1", y="2")
    written(state, feed, 12, x=None, z=None)
    part = read_changes_from(state, feed.view_id, 1)
    assert told(part) == [
        ("c", "x", '{"n":1}'),
        ("c", "y", '{"n":1}'),
        ("u", "y", '{"n":2}'),
        ("d", "x", '{"n":1}'),
    ]
    assert [(one.lsn, one.ordinal) for one in part.changes] == [(10, 11)] * 2 + [(11, 12), (12, 13)]
    rows = state.execute(f"select key, row, lsn from {feed.rows}".encode()).fetchall()
    assert rows == [(["y", "'"], '{"n":2}', 11)]
    found = read_feed(state, "sales")
    assert found is not None
    assert (found.last, found.lsn, found.trimmed) == (part.changes[-1].seq, 12, 0)

    behind = read_changes_from(state, feed.view_id, part.changes[1].seq + 1)
    assert (behind.is_known, told(behind)) == (True, told(part)[2:])
    assert not read_changes_from(state, feed.view_id, part.changes[1].seq).is_known
    assert read_changes_from(state, feed.view_id, found.last + 1).is_known


def test_rows_that_a_build_writes_in_turns_are_held_and_no_changes(state: Connection) -> None:
    record = add_view(state, "sales", 1, "select", ["a", "b"], "cache")
    make_feed(state, record.id, "sales")
    feed = Feed(record.id, (), ("a", "b"))
    begin_filling(state, feed)
    written(state, feed, 10, x="1", y="1", z="1")
    written(state, feed, 11, y="2", z=None)
    rows = state.execute(f"select key, row, lsn from {feed.rows} order by key".encode()).fetchall()
    assert rows == [(["x", "'"], '{"n":1}', 10), (["y", "'"], '{"n":2}', 11)]
    end_filling(state, feed)
    written(state, feed, 12, x="1", y="3", w="1")
    show_feed(state, "sales", record.id)
    part = read_changes_from(state, feed.view_id, 1)
    assert told(part) == [("u", "y", '{"n":3}'), ("c", "w", '{"n":1}')]
    found = read_feed(state, "sales")
    assert found is not None
    assert (found.lsn, found.trimmed) == (12, 0)


def test_what_is_written_when_readers_see_it_are_changes(state: Connection) -> None:
    record = add_view(state, "sales", 1, "select", ["a", "b"], "cache")
    make_feed(state, record.id, "sales")
    feed = Feed(record.id, (), ("a", "b"))
    begin_filling(state, feed)
    show_feed(state, "sales", record.id)
    written(state, feed, 10, x="1")
    assert told(read_changes_from(state, feed.view_id, 1)) == [("c", "x", '{"n":1}')]


def test_what_is_let_go_of_is_known_and_the_rest_is_kept(state: Connection) -> None:
    feed = made(state, 1)
    for number in range(5):
        written(state, feed, 10 + number, x=str(number))
    numbers = [one.seq for one in read_changes_from(state, feed.view_id, 1).changes]
    assert trim_logs(state, 5, 3_600) == 0
    assert trim_logs(state, 2, 3_600) == 3
    part = read_changes_from(state, feed.view_id, numbers[2] + 1)
    assert (part.trimmed, part.is_known) == (numbers[2], True)
    assert [one.seq for one in part.changes] == numbers[3:]
    assert trim_logs(state, 5, 0) == 2
    part = read_changes_from(state, feed.view_id, numbers[-1] + 1)
    assert (part.trimmed, part.is_known) == (numbers[-1], True)
    written(state, feed, 20, x=None)
    assert len(read_changes_from(state, feed.view_id, numbers[-1] + 1).changes) == 1


def test_readers_follow_the_generation_that_the_store_shows(state: Connection) -> None:
    first, second = made(state, 1), made(state, 2)
    written(state, first, 10, x="1")
    assert read_changes_from(state, first.view_id, 1) == GONE
    found = read_feed(state, "sales")
    assert found is not None
    assert (found.view_id, found.last) == (second.view_id, 0)
    show_feed(state, "sales", first.view_id)
    assert len(read_changes_from(state, first.view_id, 1).changes) == 1
    forget_view(state, first.view_id)
    drop_feed(state, second.view_id)
    assert read_feed(state, "sales") is None
    assert read_changes_from(state, first.view_id, 1) == GONE
    query = b"select count(*) from pg_tables where schemaname in ('feed_rows', 'feed_log')"
    assert state.execute(query).fetchone() == (0,)


def test_a_generation_that_is_dropped_meanwhile_has_nothing_to_let_go_of(state: Connection) -> None:
    """Commands drop it in sessions of their own: who trims must not end by that."""
    first, second = made(state, 1), made(state, 2)
    for feed in (first, second):
        written(state, feed, 10, x="1", y="1")
    state.execute(f"drop table {first.log}".encode())
    assert trim_logs(state, 1, 3_600) == 1


def test_many_rows_are_appended_by_parts(
    state: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_log, "_APPENDED_AT_ONCE", 40)
    feed = made(state, 1)
    rows = {f"k{number}": str(number) for number in range(10)}
    written(state, feed, 10, **rows)
    part = read_changes_from(state, feed.view_id, 1)
    assert [one.row for one in part.changes] == [f'{{"n":{number}}}' for number in range(10)]
    found = read_feed(state, "sales")
    assert found is not None
    assert found.last == part.changes[-1].seq
    assert trim_logs(state, 4, 3_600) == 6
    assert len(read_changes_from(state, feed.view_id, part.changes[5].seq + 1, 3).changes) == 3
