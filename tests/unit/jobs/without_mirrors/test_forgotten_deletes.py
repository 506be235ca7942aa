"""Which deletes a store may have forgotten when rows come that were read before them."""

from __future__ import annotations

import math
import time
from typing import Any, cast

import pytest

from cdc.lsn import Position
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.late_snapshot_rows import ForgottenDeletes, Returning

NOWHERE, DAY_S = Position(0, 0), 86_400.0


class Time:
    now_s = 1e6

    def __call__(self) -> float:
        return self.now_s


def test_a_store_of_rows_alone_forgets_at_once() -> None:
    deletes = ForgottenDeletes(0.0, None, Time())
    assert deletes.newest == NOWHERE
    deletes.applied(Position(5, 1))
    deletes.applied(None)
    deletes.applied(Position(3, 1))
    assert deletes.newest == Position(5, 1)
    assert ForgottenDeletes(0.0, 0.0, Time()).newest is None, "an earlier process applied some"


def test_others_remember_a_delete_for_a_day_also_of_a_process_that_goes_on() -> None:
    clock = Time()
    deletes = ForgottenDeletes(DAY_S, None, clock)
    deletes.applied(Position(5, 1))
    clock.now_s += 300
    deletes.applied(Position(7, 1))
    clock.now_s += DAY_S / 2
    deletes.applied(Position(9, 1))
    assert deletes.newest == NOWHERE
    clock.now_s += DAY_S / 2
    assert deletes.newest == Position(7, 1)
    clock.now_s += DAY_S / 2
    assert deletes.newest == Position(9, 1)


def test_nobody_knows_what_an_earlier_process_deleted_until_the_log_tells() -> None:
    clock = Time()
    deletes = ForgottenDeletes(DAY_S, 3_000.0, clock)
    deletes.applied(Position(4, 1))
    assert deletes.newest == NOWHERE, "it was an hour ago"
    clock.now_s += DAY_S - 3_000.0
    assert deletes.newest is None
    deletes.learn(Position(20, 1))
    clock.now_s += DAY_S
    assert deletes.newest == Position(20, 1)
    assert ForgottenDeletes(DAY_S, math.inf, clock).newest is None, "after an outage"


def test_the_topic_is_read_for_rows_that_were_read_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of others the store remembers what has deleted them since."""
    rows, left, before = cast(Any, object()), cast(Any, object()), cast(Any, None)
    monkeypatch.setattr(Returning, "_left", lambda *_: left)
    returning = Returning(("id",), before, ForgottenDeletes(0.0, 0.0, Time()), 3_600.0)
    of_now = int(time.time() * 1e6)
    counted = Account(1, 1, 1, 0, None, (), Position(5, 0), None, of_now)
    assert returning.without(rows, counted, 1) is rows
    old = counted._replace(read_us=of_now - 4_000_000_000)
    assert returning.without(rows, old, 1) is left
