"""How long a view goes on without a store: as long as it is configured, from the first fault on."""

from __future__ import annotations

from cdc.config import Apply
from jobs.without_mirrors.views import Patience

MINUTE_S = 60.0
AWAY_S = Apply().retry_s
"""So long each attempt of a sink waits by itself, before it is a fault of its batch."""


def test_a_store_that_is_away_for_a_minute_costs_no_view() -> None:
    """By default: the first attempt ends when the minute does, and there is another one."""
    assert AWAY_S == MINUTE_S
    now = [0.0]
    patience = Patience(AWAY_S, lambda: now[0])
    now[0] += AWAY_S
    assert patience.left(7)


def test_a_store_that_stays_away_ends_it() -> None:
    now = [1_000.0]
    patience = Patience(AWAY_S, lambda: now[0])
    assert patience.left(7)
    now[0] += AWAY_S - 1
    assert patience.left(7)
    now[0] += 1
    assert not patience.left(7)


def test_each_batch_that_is_applied_begins_the_wait_anew() -> None:
    now = [0.0]
    patience = Patience(AWAY_S, lambda: now[0])
    for batch in range(5):
        assert patience.left(batch)
        now[0] += AWAY_S - 1
        assert patience.left(batch)


def test_without_patience_the_first_fault_ends_it() -> None:
    assert not Patience(0, lambda: 5.0).left(-1)
