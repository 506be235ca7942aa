"""A thread that looks again and again."""

from __future__ import annotations

import threading
import time

import pytest
from structlog.testing import capture_logs

from cdc.errors import RetryableError
from cdc.lag.observer import EVERY_S, STALE_S, Observer
from tests.support.waiting import wait_until


@pytest.mark.parametrize("fault", [RetryableError("Kafka is away", "start it"), ValueError("odd")])
def test_a_look_that_fails_is_told_and_the_next_one_connects_again(fault: Exception) -> None:
    faults, closed = [fault, fault], list[str]()

    def look() -> str:
        if faults:
            raise faults.pop()
        return "found"

    observer = Observer(look, lambda: closed.append("closed"), every_s=0.01)
    with capture_logs() as lines:
        observer.start()
        wait_until(lambda: observer.seen is not None, "a look that succeeds")
        observer.end()
    assert observer.fresh is not None
    assert observer.fresh.found == "found"
    assert len(closed) >= 2
    assert [line["event"] for line in lines] == ["not_measured"]
    assert str(fault.args[0]) in lines[0]["reason"]


def rests(observer: Observer[str], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long it waits before its first look, and after it."""
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 1

    monkeypatch.setattr(observer._ending, "wait", wait)
    observer._run()
    return waits


def test_what_a_long_look_saw_is_fresh_until_the_next_two_are_overdue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look of a second is followed by nineteen of rest: longer than what is stale otherwise."""
    now = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def look() -> str:
        now[0] += 1.0
        return "found"

    observer = Observer(look, lambda: None, clock=lambda: now[0])
    waits = rests(observer, monkeypatch)
    assert waits == [0.0, 19.0]
    for later_s, fresh in ((0, True), (20 + STALE_S, True), (40 + STALE_S + 1, False)):
        now[0] = 1_001.0 + later_s
        assert (observer.fresh is not None) is fresh, later_s


def test_the_wait_for_a_server_costs_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what ten views tell would be a minute old."""
    answered = threading.Event()

    def look() -> str:
        assert not answered.wait(0.3)
        return "found"

    assert rests(Observer(look, lambda: None), monkeypatch) == [0.0, EVERY_S]


def test_a_long_look_that_fails_is_made_again_before_what_was_seen_is_stale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_000.0]

    def look() -> str:
        now[0] += 10.0
        raise RetryableError("Kafka is away", "start it")

    observer = Observer(look, lambda: None, clock=lambda: now[0])
    waits = rests(observer, monkeypatch)
    assert waits == [0.0, STALE_S]
