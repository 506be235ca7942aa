"""Views that do not follow the source: those that have stopped, and those that nobody applies."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cdc.lag.measure import CaptureLag, Lag, PartitionLag
from cdc.lag.report import Assessor, Block, Report
from headwater.cli.lag.display import table
from headwater.lag.document import document
from headwater.lag.watch import Seen, told
from jobs.state.views import view_status as status
from jobs.state.views.view_record import LOADED, PAUSED, ViewRecord
from jobs.state.views.view_status import ViewStatus, view_status
from tests.unit.verification.test_view_facts import Asked, config, record
from verification.view_facts import FactsOfState
from verification.view_faults import (
    ViewFault,
    late,
    not_applied,
    together,
    view_fault,
    view_faults,
)


def facts(home: Path, *found: ViewStatus) -> FactsOfState:
    return FactsOfState(config(home), Asked(*found))


def test_a_view_that_nobody_applies_is_named_with_the_way_out(tmp_path: Path) -> None:
    fault = view_fault(facts(tmp_path, ViewStatus(record(), applied=False)), "v")
    assert fault is not None
    assert (fault.kind, fault.message) == ("not applied", "view v: no process applies it")
    assert "`headwater apply v`" in fault.hint


def test_several_that_nobody_applies_are_one_line() -> None:
    stopped = ViewFault("b", "stopped", "view b: full", "")
    several = together([not_applied(["a"]), stopped, not_applied(["c"])])
    assert several == [stopped, not_applied(["a", "c"])]
    assert several[1].message == "views a, c: no process applies them"
    assert "`headwater apply a c` for these" in several[1].hint
    faults = {one: {"kind": "not applied", "fault": "x", "hint": ""} for one in ("a", "c")}
    lines = told({**faults, "b": {"kind": "stopped", "fault": "view b: full", "hint": ""}})
    assert [one["fault"] for one in lines.values()] == [
        "view b: full", "views a, c: no process applies them"
    ]  # fmt: skip


def test_one_that_has_stopped_is_told_with_its_fault(tmp_path: Path) -> None:
    fault = view_fault(facts(tmp_path, ViewStatus(record(error="full"), applied=True)), "v")
    assert fault is not None
    assert (fault.kind, fault.message) == ("stopped", "view v: full")


@pytest.mark.parametrize("applied", [True, None])
def test_one_that_is_applied_or_whose_state_is_elsewhere_has_none(
    tmp_path: Path, applied: bool | None
) -> None:
    assert view_faults(facts(tmp_path, ViewStatus(record(), applied=applied)), ["v"]) == []


def test_a_process_that_keeps_other_views_does_not_apply_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches pass over it; whoever holds its lock is about to keep it."""
    found: list[ViewRecord | None] = []

    @contextmanager
    def session(_: object) -> Any:
        yield Connection()

    class Connection:
        def execute(self, *_: object) -> Any:
            return self

        def fetchone(self) -> tuple[int]:
            return (0,)

    monkeypatch.setattr(status, "state_session", session)
    monkeypatch.setattr(status, "is_kept_elsewhere", lambda _: True)
    monkeypatch.setattr(status, "live_record", lambda *_: found[-1])
    monkeypatch.setattr(status, "unbuilt_errors", lambda _: {})
    lock = tmp_path / "shop" / "v" / "stream.lock"
    lock.parent.mkdir(parents=True)
    for seen, held, applied in (
        (LOADED, False, True),
        (PAUSED, False, False),
        (PAUSED, True, True),
        ("", False, False),
        ("", True, True),
    ):
        found.append(record()._replace(state=seen) if seen else None)
        with lock.open("a+") as file:
            if held:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            assert view_status(config(tmp_path), "v").applied is applied, (seen, held)


def lag_of(view: str, behind_s: float = 0.0, lost: int = 0) -> PartitionLag:
    return PartitionLag(view, "shop.public.orders", 0, 5, 9, 4, 128, behind_s, lost)


def reported(*lags: PartitionLag, heartbeat_s: float | None = 1_000.0) -> Report:
    capture = CaptureLag("headwater_shop", True, 0, 0)
    return Assessor(10.0).report(Lag(9, 9, capture, lags, 1_000.0, heartbeat_s))


def test_views_that_are_late_or_have_lost_records_are_problems() -> None:
    lags = [lag_of("a", 60.0), lag_of("a", 61.2), lag_of("b", 59.9), lag_of("c", lost=1_200)]
    found = reported(*lags, lag_of("d", 99.0))
    assert late(found, 60.0, {"d": "has stopped, which is told already"}) == [
        "view a is 61 s behind the source, more than 60",
        "view c lacks 1,200 records that Kafka has deleted. Run `headwater view rebuild c`.",
    ]


def test_a_view_is_late_for_a_commit_that_is_not_in_kafka() -> None:
    applied = PartitionLag("a", "shop.public.orders", 0, 9, 9, 0, 0, 0.0, 0)
    assert late(reported(applied, heartbeat_s=940.0), 60.0) == []
    assert late(reported(applied, heartbeat_s=938.0), 60.0) == [
        "view a is 62 s behind the source, more than 60: the change is not in Kafka yet"
    ]
    (said,) = late(reported(applied, heartbeat_s=None), 60.0)
    assert said.startswith("how late views are is not known"), "no data is not good news"


def test_a_view_that_was_not_built_is_a_problem_though_nothing_waits_for_it() -> None:
    empty = PartitionLag("a", "shop.public.orders", 0, None, 0, 0, None, 0.0, 0)
    assert late(reported(empty), 60.0) == ["view a was not built yet: `headwater apply` does it"]


def test_lag_names_it_in_its_table_and_its_document(tmp_path: Path) -> None:
    fault = view_fault(facts(tmp_path, ViewStatus(record(), applied=False)), "v")
    assert fault is not None
    faults = {"v": {"kind": fault.kind, "fault": fault.message, "hint": fault.hint}}
    lag = Lag(9, 9, CaptureLag("headwater_shop", True, 0, 0), (lag_of("v"), lag_of("w")))
    stream = StringIO()
    blocks = {"v": Block(fault.kind, fault.message)}
    seen = Seen(Assessor(10.0).report(lag, blocks), {}, faults)
    Console(file=stream, width=80).print(table(seen))
    words = " ".join(stream.getvalue().replace("│", " ").split())
    assert "not applied" in words
    assert "view v: no process applies it. Run `headwater apply` for all views" in words
    assert "blocked" in words
    assert max(map(len, stream.getvalue().splitlines())) <= 80
    assert document(seen)["faults"] == [{"view": "v", **faults["v"]}]
    print(stream.getvalue())
