"""Which changes of a view an alert reads, in a real state database: as apply logs them, through
builds, rollbacks, and what is no longer kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from cdc.errors import LogError, RetryableError
from cdc.kafka.group_reader import Noted
from headwater.alerts.view_source import ViewReader
from jobs.state.batch.stream_offsets import Progress
from jobs.state.feeds.alert_upkeep import forget_alerts
from jobs.state.feeds.feed_log import RowChange, append_changes, trim_logs
from jobs.state.feeds.feed_tables import Feed, make_feed, opened_feed, show_feed
from jobs.state.server.connection import Connection, connect
from jobs.state.server.migration import migrate
from jobs.state.views.view_record import add_view, forget_view
from tests.support.servers.postgres import fresh_database
from tests.support.waiting import wait_until


class State:
    """A state database, and apply, which writes there."""

    def __init__(self, dsn: str, conn: Connection) -> None:
        self.dsn, self.conn = dsn, conn

    def built(self, generation: int, old_rows: bool = True) -> Feed:
        record = add_view(self.conn, "sales", generation, "select", ["id"], "cache")
        make_feed(self.conn, record.id, "sales")
        feed = opened_feed(self.conn, record.id, True, (), ("id",), old_rows)
        assert feed is not None
        return feed

    def shown(self, feed: Feed) -> None:
        show_feed(self.conn, "sales", feed.view_id)

    def written(self, feed: Feed, **rows: int | None) -> None:
        """Rows by key, None where it is gone."""
        changes = [
            RowChange((key,), f'{{"id":"{key}"}}', None if n is None else f'{{"n":{n}}}')
            for key, n in rows.items()
        ]
        with self.conn.transaction():
            append_changes(self.conn, feed, changes, Progress(1, 10, 11, None))

    @contextmanager
    def reader(self, alert: str = "big") -> Iterator[ViewReader]:
        """As a server has it."""
        with connect(self.dsn, autocommit=True) as conn, ExitStack() as session:
            reader = ViewReader("shop", alert, "sales", conn, lambda _: None)
            reader.session = session
            reader.hold()
            yield reader


@pytest.fixture
def state(postgres: str) -> Iterator[State]:
    with fresh_database(postgres) as dsn, connect(dsn, autocommit=True) as conn:
        migrate(conn)
        yield State(dsn, conn)


def taken(reader: ViewReader) -> list[tuple[str, Any, Any]]:
    """What it reads, all of which is delivered at once: operation, row before, row after."""
    found = []
    for _ in range(3):  # one look may only go over to another log
        for record in reader.read(0):
            assert record.value is not None
            event = json.loads(record.value)
            rows = (None if row is None else row["n"] for row in (event["before"], event["after"]))
            found.append((event["op"], *rows))
            reader.commit({record.partition: Noted(record.offset + 1)})
    return found


def test_an_alert_begins_at_the_end_and_is_told_the_row_before_and_after(state: State) -> None:
    feed = state.built(1)
    state.shown(feed)
    state.written(feed, x=1)
    with state.reader() as reader:
        assert taken(reader) == []
        state.written(feed, x=2, y=5)
        state.written(feed, x=None)
        assert taken(reader) == [("u", 1, 2), ("c", None, 5), ("d", 2, None)]
        state.written(feed, y=6)
        assert len(reader.read(0)) == 1
        assert reader.behind({}) == 1, "read, and not delivered"
    with state.reader() as reader:
        assert taken(reader) == [("u", 5, 6)], "what was not delivered comes again"
        assert reader.behind({}) == 0


def test_what_waits_is_where_it_goes_on(state: State) -> None:
    """A place is that of a change, not behind one, while a message waits."""
    feed = state.built(1)
    state.shown(feed)
    with state.reader() as reader:
        state.written(feed, x=1, y=2, z=3)
        first, second, third = reader.read(0)
        assert first.offset < second.offset < third.offset
        reader.commit({second.partition: Noted(second.offset)})
    with state.reader() as reader:
        assert taken(reader) == [("c", None, 2), ("c", None, 3)]


def test_one_server_reads_and_another_one_goes_on_when_it_ends(state: State) -> None:
    feed = state.built(1)
    state.shown(feed)
    with state.reader() as standby, state.reader() as other:
        assert (standby.hold(), other.hold()) == (True, False)
        state.written(feed, x=1)
        assert other.read(0) == []
        with state.reader("another alert") as more:
            assert more.hold()
        assert len(standby.read(0)) == 1
        standby._conn.close()  # as the end of its process does
        assert taken(other) == [("c", None, 1)]


def test_a_build_is_gone_over_to_when_all_before_it_is_delivered(state: State) -> None:
    """The rows that a build makes are told by nobody, changes of it since are, of each generation
    that readers have seen meanwhile."""
    first = state.built(1)
    state.shown(first)
    with state.reader() as reader:
        state.written(first, x=1)
        second = state.built(2)
        state.written(second, x=1)
        state.shown(second)
        (waiting,) = reader.read(0)
        assert reader.read(0) == [], "one message is not delivered"
        reader.commit({waiting.partition: Noted(waiting.offset + 1)})
        assert taken(reader) == [("c", None, 1)]
    state.written(second, x=2)
    third = state.built(3)
    state.shown(third)
    state.written(third, y=9)
    with state.reader() as reader:
        assert taken(reader) == [("u", 1, 2), ("c", None, 9)]


def test_after_a_rollback_it_goes_on_where_it_had_left_that_generation(state: State) -> None:
    first, second = state.built(1), state.built(2)
    state.shown(first)
    with state.reader() as reader:
        state.written(first, x=1)
        assert taken(reader) == [("c", None, 1)]
        state.shown(second)
        state.written(second, x=2)
        assert taken(reader) == [("c", None, 2)]
        state.shown(first)
        state.written(first, x=2)
        assert taken(reader) == [("u", 1, 2)], "it catches up"


def test_a_generation_that_is_left_before_the_alert_has_come_there_is_told_by_the_other_one(
    state: State,
) -> None:
    """A message waits through a build and a rollback: what the generation in between had changed is
    told as far as the one that readers go back to changes, too."""
    first, second = state.built(1), state.built(2)
    state.shown(first)
    with state.reader() as reader:
        state.written(first, x=1, y=1)
        waiting, _ = reader.read(0)
        reader.commit({waiting.partition: Noted(waiting.offset)})
        state.shown(second)
        state.written(second, x=1, y=1)
        state.written(second, x=2, y=2)
        state.written(second, y=1)
        assert reader.read(0) == []
        state.shown(first)
        state.written(first, x=2, y=1)
    with state.reader() as reader:
        assert taken(reader) == [("c", None, 1), ("c", None, 1), ("u", 1, 2)]
        assert reader.behind({}) == 0


@pytest.mark.parametrize("way", ["trimmed", "dropped"])
def test_what_is_gone_before_it_was_looked_at_ends_the_alert(state: State, way: str) -> None:
    first, second = state.built(1), state.built(2)
    state.shown(first)
    with state.reader():
        pass
    state.written(first, x=1, y=1)
    if way == "trimmed":
        trim_logs(state.conn, 0, 3_600)
    else:
        state.shown(second)
        forget_view(state.conn, first.view_id)
    said = {"trimmed": "no longer kept", "dropped": "has been dropped"}[way]
    with pytest.raises(LogError, match=said) as error, state.reader() as reader:
        reader.read(0)
    assert "ive the alert another name" in error.value.hint
    with state.reader("another"):
        """It begins."""


def test_what_is_gone_of_the_next_generation_before_the_alert_comes_there_ends_it(
    state: State,
) -> None:
    """Its place there is of when readers were shown it."""
    first = state.built(1)
    state.shown(first)
    with state.reader() as reader:
        state.written(first, x=1)
        (waiting,) = reader.read(0)
        second = state.built(2)
        state.shown(second)
        state.written(second, x=2, y=2)
        assert reader.behind({}) == 3, "those of the next generation wait, too"
        trim_logs(state.conn, 0, 3_600)
        reader.commit({waiting.partition: Noted(waiting.offset + 1)})
        with pytest.raises(LogError, match="no longer kept"):
            taken(reader)


def test_readers_that_are_shown_a_generation_without_a_log_are_told_of(state: State) -> None:
    """As after a rollback to what was built before the view had a change stream."""
    feed = state.built(1)
    state.shown(feed)
    with state.reader() as reader:
        assert taken(reader) == []
        without = add_view(state.conn, "sales", 2, "select", ["id"], "cache")
        show_feed(state.conn, "sales", without.id)
        with pytest.raises(RetryableError, match="without a change stream"):
            reader.read(0)


def test_an_update_that_was_logged_without_the_row_before_ends_the_alert(state: State) -> None:
    """By apply while the alert was not declared."""
    feed = state.built(1)
    state.shown(feed)
    with state.reader() as reader:
        state.written(feed, x=1)
        unaware = opened_feed(state.conn, feed.view_id, True, (), ("id",), False)
        assert unaware is not None
        with pytest.raises(RetryableError, match="row before"):
            reader.behind({})
    state.written(unaware, x=2)
    opened_feed(state.conn, feed.view_id, True, (), ("id",), True)
    with state.reader() as reader:
        (before,) = reader.read(0)
        reader.commit({before.partition: Noted(before.offset + 1)})
        with pytest.raises(LogError, match="without the row before it"):
            reader.read(0)


def test_what_an_alert_has_not_done_is_kept_for_twice_as_much(state: State) -> None:
    feed = state.built(1)
    state.shown(feed)
    with state.reader() as reader:
        state.written(feed, a=1, b=1, c=1, d=1, e=1)
        records = reader.read(0)
        assert trim_logs(state.conn, 2, 3_600) == 1
        reader.commit({records[3].partition: Noted(records[3].offset)})
        assert trim_logs(state.conn, 2, 3_600) == 2, "what is done is not"
        assert trim_logs(state.conn, 2, 0) == 2


def held_of(state: State) -> tuple[list[str], int, int]:
    """The alerts that have a place, in how many logs, and how often readers were shown another
    generation, as far as that is kept."""
    alerts = state.conn.execute(b"select alert from headwater.view_alerts order by 1").fetchall()
    counts = state.conn.execute(
        b"select (select count(*) from headwater.view_alert_places), "
        b"(select count(*) from headwater.feed_shows)"
    ).fetchone()
    assert counts is not None
    return [alert for (alert,) in alerts], counts[0], counts[1]


def forgotten(state: State, declared: list[str]) -> list[str]:
    """Those that go at once, all sessions of readers having ended."""
    gone: list[str] = []

    def none_is_left() -> bool:
        gone.extend(forget_alerts(state.conn, "shop", declared, 0))
        return set(held_of(state)[0]) <= set(declared)

    wait_until(none_is_left, "sessions to end")
    return sorted(gone)


def test_an_alert_that_nobody_declares_or_reads_is_forgotten_and_begins_anew(state: State) -> None:
    """Not while one of both does, nor before the time is over: then it goes on where it was."""
    feed = state.built(1)
    state.shown(feed)
    with state.reader("big"), state.reader("was") as was:
        state.written(feed, x=1)
        assert forget_alerts(state.conn, "shop", ["big"], 0) == [], "a server reads for it"
        assert forget_alerts(state.conn, "shop", [], 3_600) == []
        assert len(was.read(0)) == 1
    assert forget_alerts(state.conn, "shop", ["big"], 3_600) == []
    with state.reader("was") as was:
        assert taken(was) == [("c", None, 1)], "it has come back in time"
    state.written(feed, x=2)
    assert forgotten(state, ["big"]) == ["was"]
    assert held_of(state) == (["big"], 1, 1)
    with state.reader("was") as was, state.reader("big") as big:
        assert taken(was) == [], "it is a new one"
        assert taken(big) == [("c", None, 1), ("u", 1, 2)]
    assert forgotten(state, []) == ["big", "was"]
    assert held_of(state) == ([], 0, 1), "a new alert needs to know what readers are shown"
    forget_view(state.conn, feed.view_id)
    forget_alerts(state.conn, "shop", [])
    assert held_of(state) == ([], 0, 0)


def test_what_readers_have_seen_is_kept_as_long_as_an_alert_has_to_go_through_it(
    state: State,
) -> None:
    """Also of generations that were dropped: an alert that comes there has to stop."""
    first, second, third = (state.built(number) for number in (1, 2, 3))
    for feed in (third, second, third, first):
        state.shown(feed)
    with state.reader() as reader:
        forget_alerts(state.conn, "shop", ["big"])
        assert held_of(state) == (["big"], 3, 3), "of each generation the newest"
        state.written(first, x=1)
        (waiting,) = reader.read(0)
        for feed in (second, third):
            state.shown(feed)
            state.written(feed, x=2)
        forget_alerts(state.conn, "shop", ["big"])
        reader.commit({waiting.partition: Noted(waiting.offset + 1)})
        assert taken(reader) + taken(reader) == [("c", None, 2)] * 2
        forget_view(state.conn, first.view_id)
        forget_alerts(state.conn, "shop", ["big"])
        assert held_of(state) == (["big"], 2, 2)
        state.shown(second)
        forget_view(state.conn, second.view_id)
        forget_alerts(state.conn, "shop", ["big"])
        assert held_of(state) == (["big"], 1, 2)
        with pytest.raises(LogError, match="has been dropped"):
            taken(reader)
    state.shown(third)
    forget_alerts(state.conn, "shop", ["big"])
    with pytest.raises(LogError, match="has been dropped"), state.reader():
        """It is not taken for a new one."""


def test_a_view_without_a_log_of_old_rows_is_waited_for(state: State) -> None:
    with pytest.raises(RetryableError, match="without a change stream"), state.reader():
        """Nobody has built it."""
    feed = state.built(1, old_rows=False)
    state.shown(feed)
    state.written(feed, x=1)
    with pytest.raises(RetryableError, match="row before"), state.reader():
        """Apply does not know of the alert."""
    known = opened_feed(state.conn, feed.view_id, True, (), ("id",), True)
    assert known is not None
    with state.reader() as reader:
        state.written(known, x=2)
        assert taken(reader) == [("u", 1, 2)]
