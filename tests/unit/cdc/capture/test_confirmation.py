"""Progress: only what is durable is confirmed, in order, and it never goes back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.capture.confirmation import Progress


def test_nothing_is_durable_before_every_record_is_acknowledged() -> None:
    progress = Progress(100)
    flight = progress.submit(2, 200)
    assert progress.settle() == 100
    flight.pending -= 1
    assert progress.settle() == 100
    flight.pending -= 1
    assert progress.settle() == 200


def test_acknowledgements_of_an_open_transaction_count_though_nothing_becomes_durable() -> None:
    progress = Progress(100)
    for settled in (1, 2):
        progress.submit(1, 100).pending = 0
        assert (progress.settle(), progress.settled) == (100, settled)


def test_a_later_flight_waits_for_an_earlier_one() -> None:
    progress = Progress(100)
    first, second = progress.submit(1, 200), progress.submit(1, 300)
    second.pending = 0
    assert progress.settle() == 100
    first.pending = 0
    assert progress.settle() == 300


def test_a_keepalive_is_durable_at_once_only_with_nothing_in_flight() -> None:
    progress = Progress(100)
    progress.complete(150)
    assert progress.settle() == 150
    flight = progress.submit(1, 200)
    progress.complete(400)
    assert progress.settle() == 150
    flight.pending = 0
    assert progress.settle() == 400


def test_a_keepalive_behind_what_is_published_changes_nothing() -> None:
    progress = Progress(100)
    progress.submit(1, 300)
    progress.complete(200)
    assert progress.published == 300


def test_records_of_an_open_transaction_do_not_move_the_lsn() -> None:
    progress = Progress(100)
    progress.complete(180)
    part = progress.submit(5, 100)
    part.pending = 0
    assert progress.settle() == 180


def test_confirmed_needs_its_own_record() -> None:
    progress = Progress(100)
    progress.complete(150)
    assert progress.confirmed == 100
    progress.recorded(150)
    assert progress.confirmed == 150
    with pytest.raises(AssertionError):
        progress.recorded(151)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), max_size=40), st.integers())
def test_durable_is_the_longest_acknowledged_prefix(
    steps: list[tuple[int, int]], seed: int
) -> None:
    progress = Progress(0)
    flights, end = [], 0
    for records, width in steps:
        end += width
        flights.append((progress.submit(records, end), end))
    waiting = [flight for flight, _ in flights for _ in range(flight.pending)]
    random.Random(seed).shuffle(waiting)
    for flight in waiting:
        flight.pending -= 1
        expected = 0
        for each, lsn in flights:
            if each.pending:
                break
            expected = lsn
        assert progress.settle() == expected
    assert not progress.in_flight
