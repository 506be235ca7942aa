"""Two seeds of ``make chaos`` that hold each kind of kill, and all that a seed may draw."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from stack.guardian import Guardian
from tests.chaos.__main__ import run, summarise
from tests.chaos.faults import plan
from tests.chaos.options import majors, options

SEEDS = (5, 8)


def test_the_seeds_hold_each_kind_of_kill() -> None:
    faults = {step.fault for seed in SEEDS for step in plan(seed)}
    assert {"capture killed", "broker killed", "server killed"} <= faults


def test_the_seeds_hold_both_servers_metadata_and_dead_letters() -> None:
    drawn = [options(seed) for seed in SEEDS]
    assert majors(SEEDS) == ["16", "18"]
    assert {one.metadata for one in drawn} == {True, False}
    assert {one.limit is None for one in drawn} == {True, False}


@pytest.mark.timeout(1200)  # a minute alone; four where others keep the machine busy
def test_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path, guardian: Guardian) -> None:
    guardian.purge(tmp_path)
    outcomes = list(run(SEEDS, tmp_path / "chaos", Console()))
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    summary = summarise(outcomes, 0)
    assert summary["seeds"] == len(SEEDS)
    assert all(outcome.transactions > 50 and outcome.samples > 5 for outcome in outcomes)
    assert all(outcome.emitted > 5 for outcome in outcomes)
    assert sum(outcome.letters for outcome in outcomes) > 5
