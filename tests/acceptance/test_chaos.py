"""Two seeds of ``make chaos`` that hold each kind of kill, and all that a seed may draw; and the
beginning of one that goes the whole path from source to every store."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from stack.guardian import Guardian
from tests.chaos.__main__ import run, summarise
from tests.chaos.faults import TABLE_JOINS, plan
from tests.chaos.options import majors, options
from tests.chaos.state_faults import STEP_FAULTS
from tests.chaos.storefaults import apply_kills, store_kills
from tests.support.servers.lent_jvm import Lender

SEEDS, FAULTS = (5, 8), 5
WHOLE, FIRST = 411, 4
"""Seeds, and so many of their faults."""


def test_the_seeds_hold_each_kind_of_kill() -> None:
    faults = {step.fault for seed in SEEDS for step in plan(seed)[:FAULTS]}
    assert {"capture killed", "broker killed", "server killed", TABLE_JOINS} <= faults


def test_the_seeds_hold_both_servers_metadata_and_dead_letters() -> None:
    drawn = [options(seed) for seed in SEEDS]
    assert majors(SEEDS) == ["16", "18"]
    assert {one.metadata for one in drawn} == {True, False}
    assert {one.limit is None for one in drawn} == {True, False}


@pytest.mark.timeout(1200)  # a minute alone; four where others keep the machine busy
def test_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path, guardian: Guardian) -> None:
    guardian.purge(tmp_path)
    outcomes = list(run(SEEDS, tmp_path / "chaos", Console(), faults=FAULTS))
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    summary = summarise(outcomes, 0)
    assert summary["seeds"] == len(SEEDS)
    assert all(outcome.transactions > 50 and outcome.samples > 5 for outcome in outcomes)
    assert all(outcome.emitted > 5 for outcome in outcomes)
    assert sum(outcome.letters for outcome in outcomes) > 5


def test_the_whole_path_begins_with_each_kind_of_kill() -> None:
    faults = [step.fault for step in plan(WHOLE, whole=True)[:FIRST]]
    assert options(WHOLE).whole
    assert options(WHOLE).engine == "database"
    assert any(map(apply_kills, faults))
    assert STEP_FAULTS.keys() & faults
    assert any(map(store_kills, faults))
    assert {"capture killed", TABLE_JOINS} <= {*faults}
    assert not options(WHOLE).own_jvm


@pytest.mark.timeout(1800)  # seven minutes where others keep the machine busy
def test_views_in_every_store_are_as_the_source_after_kills(
    tmp_path: Path, guardian: Guardian, lender: Lender
) -> None:
    guardian.purge(tmp_path)
    (outcome,) = run([WHOLE], tmp_path / "chaos", Console(), faults=FIRST, jvm=lender)
    assert outcome.findings == []
    assert outcome.views == 14
    assert outcome.rows > 100
    assert outcome.batches > outcome.views
