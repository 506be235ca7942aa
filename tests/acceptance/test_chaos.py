"""A seed of ``make chaos`` that holds each kind of kill, and the beginning of one that goes the
whole path from source to every store. Together they have all that a seed may draw."""

from __future__ import annotations

import pytest
from rich.console import Console

from stack.guardian import Guardian
from tests.chaos.__main__ import run, summarise
from tests.chaos.faults.capture import TABLE_JOINS
from tests.chaos.faults.engine import STEP_FAULTS
from tests.chaos.faults.plan import plan
from tests.chaos.faults.stores import apply_kills, store_kills
from tests.chaos.options import majors, options
from tests.chaos.outcome import Outcome
from tests.support.servers.lent_jvm import Lender

SEED, WHOLE, FAULTS = 3805, 411, 4
"""So many faults of each seed."""
pytestmark = pytest.mark.timeout(1800)  # two minutes alone; more where others keep the machine busy


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, guardian: Guardian, lender: Lender
) -> list[Outcome]:
    """On one set of servers."""
    home = tmp_path_factory.mktemp("chaos")
    guardian.purge(home)
    return list(run([SEED, WHOLE], home / "servers", Console(), faults=FAULTS, jvm=lender))


def test_the_seed_holds_each_kind_of_kill() -> None:
    faults = {step.fault for step in plan(SEED)[:FAULTS]}
    assert {"capture killed", "broker killed", "server killed", TABLE_JOINS} <= faults


def test_the_seeds_hold_both_servers_metadata_and_dead_letters() -> None:
    drawn = [options(seed) for seed in (SEED, WHOLE)]
    assert majors((SEED, WHOLE)) == ["16", "18"]
    assert {one.metadata for one in drawn} == {True, False}
    assert {one.limit is None for one in drawn} == {True, False}


def test_the_whole_path_begins_with_each_kind_of_kill() -> None:
    faults = [step.fault for step in plan(WHOLE, whole=True)[:FAULTS]]
    drawn = options(WHOLE)
    assert (drawn.whole, drawn.engine, drawn.own_jvm) == (True, "database", False)
    assert any(map(apply_kills, faults))
    assert STEP_FAULTS.keys() & faults
    assert any(map(store_kills, faults))
    assert {"capture killed", TABLE_JOINS} <= {*faults}


def test_nothing_is_lost_doubled_or_out_of_order(outcomes: list[Outcome]) -> None:
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    assert summarise(outcomes, 0)["seeds"] == 2
    assert all(outcome.transactions > 50 and outcome.samples > 5 for outcome in outcomes)
    assert all(outcome.emitted > 5 for outcome in outcomes)
    assert sum(outcome.letters for outcome in outcomes) > 5


def test_views_in_every_store_are_as_the_source_after_kills(outcomes: list[Outcome]) -> None:
    whole = outcomes[-1]
    assert whole.views == 14
    assert whole.rows > 100  # of a run that is slower they are fewer
    assert whole.batches > whole.views
