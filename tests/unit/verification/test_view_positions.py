"""Waiting for views, over a log in memory."""

from __future__ import annotations

import time

import pytest

from cdc.config import Config
from cdc.errors import LogError, RetryableError
from cdc.events.marks import Mark
from cdc.lag.view_lags import Moment, view_lags
from cdc.source.slot import SourceIdentity
from headwater.view_client import Views
from tests.support.events.log_in_memory import PROGRESS, TABLE, LogInMemory
from verification.view_positions import NotReachedError, applied_below, wait_until_applied


def wait(log: LogInMemory, lsn: int, *views: str, timeout_s: float = 0.0) -> list[str]:
    """What was said and done while it waited."""
    heard: list[str] = []

    def on_pause() -> None:
        heard.append("pause")
        log.mark(1_000)

    topics = {view: [TABLE] for view in views or ("v",)}
    deadline = time.monotonic() + timeout_s
    wait_until_applied(log, "s", topics, lsn, deadline, heard.append, on_pause)
    return heard


def test_a_view_without_a_change_is_there_with_the_mark_once_it_is_built() -> None:
    log = LogInMemory()
    log.mark(100)
    with pytest.raises(NotReachedError, match=r"view v to apply s.public.t-0: .* nothing") as late:
        wait(log, 100)
    assert [one.records for one in late.value.lacking["v"]] == [0]
    assert applied_below(log, "s", "v", [TABLE]) is None
    log.apply("v", 0)
    assert wait(log, 100) == []
    assert applied_below(log, "s", "v", [TABLE]) == 100


def test_rows_of_a_table_that_was_added_have_to_be_applied_though_no_mark_tells_of_them() -> None:
    log = LogInMemory()
    log.records[PROGRESS].append(Mark(100, {}, "1", 1, "db", "slot").encode(0))
    log.change(50)
    with pytest.raises(NotReachedError, match=r"view v to apply s.public.t-0: .* nothing"):
        wait(log, 100)
    assert applied_below(log, "s", "v", [TABLE]) is None
    log.apply("v", 1)
    assert wait(log, 100) == []
    assert applied_below(log, "s", "v", [TABLE]) == 100


def test_offsets_of_a_topic_that_was_recreated_are_none_of_the_new_one() -> None:
    log = LogInMemory()
    log.apply("v", 200)
    log.change(50)
    log.mark(100)
    with pytest.raises(NotReachedError, match=r"view v to apply s.public.t-0: .* nothing"):
        wait(log, 100)
    assert applied_below(log, "s", "v", [TABLE]) is None
    (found,), _ = view_lags(log, {"v": [TABLE]}, Moment(120, 100, 0.0))
    assert (found.committed, found.behind_records, found.behind_bytes) == (None, 1, 70)
    log.apply("v", 1)
    assert wait(log, 100) == []


def test_a_view_may_be_ahead_of_the_mark() -> None:
    log = LogInMemory()
    log.change(50)
    log.mark(60)
    log.change(70)
    log.apply("v", 2)
    assert wait(log, 60) == []
    assert applied_below(log, "s", "v", [TABLE]) == 60


def test_a_mark_that_does_not_come_by_itself_is_asked_for_once() -> None:
    log = LogInMemory()
    log.apply("v", 0)
    log.mark(99)
    heard = wait(log, 100, timeout_s=60)
    assert heard.count("pause") == 1
    assert heard[0] == "everything below 0/64 in Kafka; capture is at 0/63"


def test_a_change_below_the_lsn_has_to_be_applied_and_later_ones_need_not() -> None:
    log = LogInMemory()
    log.apply("v", 0)
    log.change(50)
    log.mark(60)
    log.change(70)
    with pytest.raises(NotReachedError, match=r"view v to apply s.public.t-0: .* 0 of 1") as late:
        wait(log, 60)
    assert [one.records for one in late.value.lacking["v"]] == [1]
    assert applied_below(log, "s", "v", [TABLE]) == 50
    log.apply("v", 1)
    wait(log, 60)
    assert applied_below(log, "s", "v", [TABLE]) == 60
    log.mark(80)
    assert applied_below(log, "s", "v", [TABLE]) == 70


def test_of_several_views_those_that_lack_something_are_named() -> None:
    log = LogInMemory()
    log.change(50)
    log.mark(60)
    for view in ("a", "c"):
        log.apply(view, 1)
    with pytest.raises(NotReachedError, match=r"view b to apply .*nothing.* for b, d") as late:
        wait(log, 60, "a", "b", "c", "d")
    assert list(late.value.lacking) == ["b", "d"]


def test_capture_that_never_comes_so_far_is_named() -> None:
    log = LogInMemory()
    with pytest.raises(NotReachedError, match="capture is at no position yet") as late:
        wait_until_applied(log, "s", {"v": [TABLE]}, 5, time.monotonic())
    assert late.value.lacking == {}
    assert applied_below(log, "s", "v", [TABLE]) is None


def test_kafka_that_is_away_is_waited_for_as_long_as_for_the_view() -> None:
    log, away = LogInMemory(), list[str]()

    def wait_for(timeout_s: float) -> None:
        topics, deadline = {"v": [TABLE]}, time.monotonic() + timeout_s
        wait_until_applied(log, "s", topics, 5, deadline, on_away=away.append)

    log.mark(10)
    log.apply("v", 0)
    log.away = 2
    wait_for(60)
    assert away == ["Kafka does not answer; waiting for it"]
    log.away = 1_000
    with pytest.raises(NotReachedError, match="waited for Kafka: Kafka does not") as late:
        wait_for(0)
    assert late.value.lacking == {}


def test_nobody_can_say_where_a_view_is_whose_records_are_gone() -> None:
    log = LogInMemory()
    for lsn in (50, 60, 70):
        log.change(lsn)
    log.mark(80)
    assert applied_below(log, "s", "v", [TABLE]) is None  # it never began
    log.apply("v", 1)
    assert applied_below(log, "s", "v", [TABLE]) == 60
    log.gone = 2
    assert applied_below(log, "s", "v", [TABLE]) is None


def test_a_tombstone_says_nothing_of_where_a_view_is() -> None:
    log = LogInMemory()
    log.change(50)
    log.records[TABLE].append(None)
    log.change(60)
    log.mark(80)
    log.apply("v", 1)
    assert applied_below(log, "s", "v", [TABLE]) == 60


class SourceAsked:
    """What is asked of a connection to the source."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("lsn", [None, 60])
def test_a_mark_of_another_database_says_nothing_of_views(
    lsn: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, place = LogInMemory(), "headwater.view_client"
    log.change(50)
    log.mark(60)
    log.apply("v", 1)
    here = [SourceIdentity("1", 1, "copy")]
    asked: list[str] = []

    def connect(dsn: str, application_name: str) -> SourceAsked:
        asked.append(f"{application_name}: {dsn}")
        if not here:
            raise RetryableError("PostgreSQL does not answer", "is it running?")
        return SourceAsked()

    monkeypatch.setattr(f"{place}.Broker", lambda *_: log)
    monkeypatch.setattr(f"{place}.connect", connect)
    monkeypatch.setattr(f"{place}.identify", lambda _: here[0])
    monkeypatch.setattr(f"{place}.lsn_of", lambda _: 60)
    view = {"store": "cache", "key": ["id"], "sql": "select id from t"}
    config = Config.model_validate({
        "source": {"name": "s", "dsn": "dbname=copy", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "nowhere:1"},
        "stores": {"cache": {"kind": "redis", "url": "redis://nowhere:1"}},
        "views": {"v": view},
        "apply": {"engine": "delta"},
    })  # fmt: skip
    with Views(config) as views, pytest.raises(LogError, match="leads to database copy"):
        views.wait("v", lsn=lsn)
    assert asked == ["headwater wait: dbname=copy"]
    here[0] = SourceIdentity("1", 2, "db")  # a server that was promoted is the same
    with Views(config) as views:
        assert views.wait("v", lsn=lsn).lsn == 60
    here.clear()
    if lsn is not None:  # a source that is away is not needed, and looked for once
        asked.clear()
        with Views(config) as views:
            assert [views.wait("v", lsn=lsn).lsn for _ in range(2)] == [60, 60]
        assert len(asked) == 1
