"""Views of one store, kept in turn: fairness, tries again, and removal, without a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from psycopg.errors import AdminShutdown

from cdc.errors import HeadwaterError, RetryableError, ViewError
from jobs.run.views.lane import Lane
from jobs.run.views.view_keeper import Turn
from tests.support.waiting import wait_until


class Session:
    """The state database's, as far as a lane knows it."""

    closed = broken = False
    error: Exception | None = None
    """What its next statement ends with."""

    def execute(self, statement: bytes) -> None:
        assert statement == b"discard plans"
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed = True


class Keeper:
    """Gives the turns that it is told to, then nothing."""

    name = "v"

    def __init__(self, *turns: Turn | Exception) -> None:
        self._turns, self.made, self.closed = list(turns), 0, False
        self.entered, self.leave = threading.Event(), threading.Event()
        self.leave.set()

    def turn(self, conn: Any) -> Turn:  # noqa: ARG002
        self.made += 1
        self.entered.set()
        self.leave.wait(30)
        found = self._turns.pop(0) if self._turns else Turn(7)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.closed = True


class Watcher:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, Turn]] = []
        self.errors: list[tuple[int, HeadwaterError]] = []

    def kept(self, view: int, turn: Turn) -> None:
        self.turns.append((view, turn))

    def failed(self, view: int, error: HeadwaterError) -> None:
        self.errors.append((view, error))


class Clock:
    """Goes on by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def lane(watcher: Watcher, clock: Clock) -> Iterator[Lane]:
    found = Lane("cache", lambda: cast(Any, Session()), 0.0, watcher, clock)
    found.start()
    yield found
    found.end()


def test_a_view_has_a_turn_when_it_is_added_and_when_it_is_woken(
    lane: Lane, watcher: Watcher
) -> None:
    keeper = Keeper()
    lane.add(1, keeper)
    wait_until(lambda: len(watcher.turns) == 1, "the first turn")
    assert lane.idle(1)
    lane.wake({1, 99})
    wait_until(lambda: len(watcher.turns) == 2, "the second turn")


def test_a_view_with_more_to_do_lets_others_have_their_turn(lane: Lane, watcher: Watcher) -> None:
    large, small = Keeper(*[Turn(1, more=True)] * 5), Keeper()
    large.leave.clear()
    lane.add(5, large)
    assert large.entered.wait(30)
    lane.add(6, small)
    large.leave.set()
    wait_until(lambda: len(watcher.turns) == 7, "all turns")
    assert [view for view, _ in watcher.turns].index(6) <= 2


def test_what_is_woken_during_its_turn_has_another_one(lane: Lane, watcher: Watcher) -> None:
    keeper = Keeper()
    keeper.leave.clear()
    lane.add(1, keeper)
    assert keeper.entered.wait(30)
    lane.wake({1})
    assert not lane.idle(1)
    keeper.leave.set()
    wait_until(lambda: len(watcher.turns) == 2, "the second turn")


@pytest.mark.parametrize(("error", "wait_s"), [(RetryableError("away"), 1), (ViewError("no"), 15)])
def test_a_fault_is_told_and_tried_again_while_others_go_on(
    lane: Lane, watcher: Watcher, clock: Clock, error: HeadwaterError, wait_s: float
) -> None:
    lane.add(3, Keeper(error))
    wait_until(lambda: len(watcher.errors) == 1, "the fault")
    lane.add(4, Keeper())
    wait_until(lambda: [view for view, _ in watcher.turns] == [4], "the other view's turn")
    assert not lane.idle(3)
    clock.now = wait_s
    lane.wake(set())
    wait_until(lambda: [view for view, _ in watcher.turns] == [4, 3], "the next try")


def test_a_fault_that_is_no_error_of_ours_is_told_too(lane: Lane, watcher: Watcher) -> None:
    lane.add(3, Keeper(ZeroDivisionError()))
    wait_until(lambda: len(watcher.errors) == 1, "the fault")
    assert watcher.errors[0][0] == 3


def test_a_state_database_that_goes_away_stops_no_view(watcher: Watcher, clock: Clock) -> None:
    sessions = [Session(), Session()]
    lane = Lane("cache", lambda: cast(Any, sessions.pop()), 0.0, watcher, clock)
    used = sessions[-1]
    lane.start()
    lane.add(1, Keeper(Turn(7), AdminShutdown("in its turn")))
    wait_until(lambda: len(watcher.turns) == 1, "the first turn")
    lane.wake({1})
    wait_until(lambda: len(watcher.errors) == 1, "the first fault")
    used.error, used.broken, clock.now = AdminShutdown("as statements are planned anew"), True, 20.0
    lane.wake({1})
    wait_until(lambda: len(watcher.errors) == 2, "the other fault")
    clock.now += 1.0
    lane.wake({1})
    wait_until(lambda: len(watcher.turns) == 2, "the next try, in another session")
    lane.end()
    assert all(isinstance(error, RetryableError) for _, error in watcher.errors), watcher.errors


def test_a_view_is_released_when_its_turn_is_over(lane: Lane) -> None:
    keeper = Keeper()
    keeper.leave.clear()
    lane.add(1, keeper)
    assert keeper.entered.wait(30)
    removing = threading.Thread(target=lane.remove, args=(1,))
    removing.start()
    assert not keeper.closed
    keeper.leave.set()
    removing.join(30)
    assert keeper.closed
    assert not lane.idle(1)


def test_a_cadence_bounds_how_often_a_view_is_written(watcher: Watcher, clock: Clock) -> None:
    lane = Lane("lake", lambda: cast(Any, Session()), 2.0, watcher, clock)
    lane.start()
    lane.add(1, Keeper())
    wait_until(lambda: len(watcher.turns) == 1, "the first turn")
    lane.wake({1})
    lane.add(2, Keeper())
    wait_until(lambda: len(watcher.turns) == 2, "the other view's turn")
    assert [view for view, _ in watcher.turns] == [1, 2]
    clock.now = 2.0
    lane.wake(set())
    wait_until(lambda: len(watcher.turns) == 3, "its next turn")
    lane.end()
