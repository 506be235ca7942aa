"""The line about a view's rows: short, whatever number of changes it tells of."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from cdc.errors import FatalError
from jobs.batch.key_sample import LOGGED, spread
from jobs.run.views.turn_reports import Turns

NOW_S = 1_000.0


class GroupOffsets:
    def reached(self, view: int, batch: int) -> None:
        assert (view, batch) == (1, 7)


def test_a_line_has_a_twentieth_of_each_and_not_a_number_for_each_row() -> None:
    turns = Turns(cast("Any", GroupOffsets()), lambda _: "v", lambda: 10.0, lambda: NOW_S)
    commits = [round((NOW_S - at / 1000) * 1_000_000) for at in range(5_000)]
    applied = SimpleNamespace(committed_us=commits, views=[1], progress=SimpleNamespace(batch=7))
    turn = SimpleNamespace(reached=7, written=5_000, parked=0, seconds=0.5, cause="")
    with capture_logs() as lines:
        turns.batch(cast("Any", applied))
        turns.kept(1, cast("Any", turn))
    (line,) = lines
    fresh = line["fresh_ms"]
    assert (len(fresh), fresh[0], fresh[-1]) == (LOGGED, 0, 4_999)
    assert fresh == sorted(fresh)
    assert all(isinstance(one, int) for one in fresh)
    assert len(json.dumps(line)) < 300


def test_what_waits_for_a_store_that_is_away_takes_no_more_memory_with_time() -> None:
    turns = Turns(cast("Any", GroupOffsets()), lambda _: "v", lambda: 10.0, lambda: NOW_S)
    for batch in range(8):
        commits = [round(NOW_S * 1_000_000) - 8 + batch] * 5_000
        for _ in range(250):
            applied = SimpleNamespace(
                committed_us=commits, views=[1], progress=SimpleNamespace(batch=batch)
            )
            turns.batch(cast("Any", applied))
    waiting = turns._told[1].waiting
    assert len(waiting) <= 10_000
    assert (waiting[0][0], waiting[-1][0]) == (0, 7)


def test_a_fault_of_a_view_that_is_being_opened_anew_is_not_told() -> None:
    names = {1: "v"}
    turns = Turns(cast("Any", GroupOffsets()), lambda id_: names.get(id_, ""))
    fault = FatalError("making rows of view v: column x does not exist", "report it")
    with capture_logs() as lines:
        turns.failed(2, fault)
        assert turns.error(2) is None
        turns.failed(1, fault)
    assert [line["event"] for line in lines] == ["view_stopped"]


def test_few_values_are_all_there_in_their_order() -> None:
    assert spread([3, 1, 2], 3) == [1, 2, 3]
    assert spread([], 20) == []
    assert spread(range(1_000), 3) == [0, 499, 999]
