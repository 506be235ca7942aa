"""Two seeds of ``python -m tests.snapshots``: one kills a snapshot on demand, one the initial."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.guardian import Guardian
from tests.chaos.servers.environment import setting
from tests.snapshots.__main__ import run

SEEDS = (26, 5)
PAUSE_S = 0.02
"""Writers at full speed are most of the time that a seed takes: there are hundreds of
transactions beside a snapshot all the same."""


@pytest.mark.timeout(1800)
def test_snapshots_that_are_killed_and_go_on_are_exact(tmp_path: Path, guardian: Guardian) -> None:
    guardian.purge(tmp_path)
    with setting(tmp_path / "snapshots") as servers:
        outcomes = [run(servers, seed, pause_s=PAUSE_S) for seed in SEEDS]
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    assert [outcome.initial for outcome in outcomes] == [False, True]
    assert all(outcome.rows > 1000 and outcome.transactions > 50 for outcome in outcomes)
