"""When a running apply checks which view, and what it notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdc.config import Config, parse_config
from cdc.errors import RetryableError
from headwater import freshness
from headwater.freshness import Checks
from headwater.lag.verified import read_verified
from jobs.generations.declaration import Declaration
from jobs.generations.generation_record import Generation, Generations, write_generations
from tests.unit.headwater.lag.test_watch import config
from verification.key_walk import KeyWalk
from verification.report import Report

DAY_S = 86_400


@dataclass
class Run:
    """Checks of an apply, its clock, and what each check is to find."""

    state: Path
    verify: dict[str, str]
    now_s: float = 1_000_000.0
    differing: int = 0
    total: int = 100
    fault: Exception | None = None
    checked: list[str] = field(default_factory=list)
    apply: dict[str, str] = field(default_factory=dict)

    def config(self) -> Config:
        document = config().model_dump(exclude_unset=True)
        document |= {"verify": self.verify, "apply": {"state": str(self.state), **self.apply}}
        return parse_config(document, {}, Path("/nowhere"))

    def compared(self, _: Config, view: str, walk: KeyWalk) -> Report:
        self.checked.append(view)
        if self.fault is not None:
            raise self.fault
        walk.total = self.total
        report = Report(view, lsn=int(self.now_s), sampled=9, different=self.differing)
        report.differing = [{"id": one} for one in range(self.differing)]
        return report

    def after(self, checks: Checks, seconds: float) -> list[str]:
        """Which views are checked then, looking twice."""
        self.now_s += seconds
        self.checked.clear()
        for _ in range(2):
            checks.look()
        return sorted(self.checked)

    def directory(self, view: str) -> Path:
        return self.state / "shop" / view


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    made = Run(tmp_path, {"every": "1d"})
    for view in ("v", "w"):
        made.directory(view).mkdir(parents=True)
    monkeypatch.setattr(freshness, "time", SimpleNamespace(time=lambda: made.now_s))
    monkeypatch.setattr(freshness, "_compared", made.compared)
    return made


def test_each_view_is_checked_as_often_as_the_configuration_says_now(run: Run) -> None:
    checks = Checks(run.config, [])
    assert run.after(checks, 0) == ["v", "w"]
    assert run.after(checks, DAY_S - 1) == []
    assert run.after(checks, 1) == ["v", "w"]
    run.verify = {"every": "10min"}
    assert run.after(checks, 599) == []
    assert run.after(checks, 1) == ["v", "w"], "a shorter time holds at once"
    run.verify = {"every": "1d", "all_within": "1d"}
    run.total = 50_000
    assert run.after(checks, DAY_S) == ["v", "w"]
    assert run.after(checks, DAY_S / 100) == ["v", "w"]
    run.verify = {}
    assert run.after(checks, DAY_S) == []
    run.verify = {"every": "1d"}
    assert run.after(Checks(run.config, ["w"]), 0) == ["w"], "also of another process"


def test_rows_that_differ_are_soon_looked_at_again(run: Run) -> None:
    checks = Checks(run.config, ["v"])
    run.differing = 2
    assert run.after(checks, 0) == ["v"]
    run.differing = 0
    assert run.after(checks, 59) == []
    assert run.after(checks, 1) == ["v"], "somebody may have repaired them"
    assert run.after(checks, 60) == []


def test_a_check_that_was_not_possible_is_soon_tried_again(run: Run) -> None:
    checks = Checks(run.config, ["v"])
    run.fault = RetryableError("it is late")
    assert run.after(checks, 0) == ["v"]
    assert run.after(checks, 59) == []
    run.fault = None
    assert run.after(checks, 1) == ["v"]
    assert run.after(checks, 60) == []


def test_what_was_found_is_of_one_generation(run: Run) -> None:
    checks = Checks(run.config, ["v"])
    run.differing = 2
    run.after(checks, 0)
    found = read_verified(run.directory("v"))
    assert found is not None
    assert found.differing == (("0",), ("1",))
    declared = Declaration("select id from orders", ("id",), "cache", "orders")
    live = Generations("v", {2: Generation(2, "live", declared)})
    write_generations(run.directory("v"), live)
    assert read_verified(run.directory("v")) is None
    run.differing = 0
    assert run.after(checks, 60) == ["v"]
    found = read_verified(run.directory("v"))
    assert found is not None
    assert (found.differing, found.generation) == ((), 2)


def test_why_views_of_a_cluster_are_not_checked_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, {"every": "1d"}, apply={"engine": "delta"})
    run.directory("v").mkdir(parents=True)
    monkeypatch.setattr(freshness, "time", SimpleNamespace(time=lambda: run.now_s))
    Checks(run.config, ["v"]).look()
    found = read_verified(run.directory("v"))
    assert found is not None
    assert "not kept in the state database" in found.reason
