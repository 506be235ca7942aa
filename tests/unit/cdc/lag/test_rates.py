"""Speeds and the time to catch up, from counts over time."""

from __future__ import annotations

import pytest

from cdc.lag.rates import WINDOW_S, Count, Progress, rates


@pytest.mark.parametrize(
    ("last", "done", "added", "catch_up_s"),
    [
        (Count(12.0, 120, 200), 10.0, 0.0, 8.0),
        (Count(12.0, 140, 220), 20.0, 10.0, 8.0),
        (Count(12.0, 110, 220), 5.0, 10.0, None),
        (Count(12.0, 100, 200), 0.0, 0.0, None),
        (Count(12.0, 200, 200), 50.0, 0.0, 0.0),
    ],
)
def test_speed_and_time_to_catch_up(
    last: Count, done: float, added: float, catch_up_s: float | None
) -> None:
    found = rates(Count(10.0, 100, 200), last)
    assert found is not None
    assert (found.done, found.added, found.catch_up_s) == (done, added, catch_up_s)


def test_no_speed_without_time_or_of_a_topic_that_was_made_anew() -> None:
    first = Count(10.0, 100, 200)
    assert rates(first, first) is None
    assert rates(first, Count(11.0, 0, 5)) is None
    assert rates(first, Count(11.0, 100, 5)) is None


def test_speeds_are_of_the_last_half_minute() -> None:
    progress = Progress()
    for second in range(100):
        progress.add(Count(second, 10 * min(second, 50), 1_000))
    assert progress.moved_s == 50
    assert progress.rates is not None
    assert progress.rates.done == 0, f"nothing was done for more than {WINDOW_S} s"
    progress.add(Count(100.0, 800, 1_000))
    assert progress.rates.done == pytest.approx(10.0)
