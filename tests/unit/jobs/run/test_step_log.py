"""What a build tells in the log while it works."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from jobs.run.builds.step_log import Steps


def test_rows_of_a_long_step_are_told_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("jobs.run.builds.step_log.time.monotonic", lambda: now)
    with capture_logs() as told:
        steps = Steps("orders")
        steps.step("loading into search")
        for rows in (1_000, 2_000, 3_000, 4_000, 5_000):
            steps.reading(rows)
            now += 1.0
        steps.step("5,000 rows loaded")
    assert [(line["event"], line.get("step"), line.get("rows")) for line in told] == [
        ("view_build", "loading into search", None),
        ("view_loading", None, 3_000),
        ("view_loading", None, 5_000),
        ("view_build", "5,000 rows loaded", None),
    ]
    assert {line["view"] for line in told} == {"orders"}


def test_other_work_is_told_to_whoever_waits_for_it_only() -> None:
    with capture_logs() as told:
        steps = Steps()
        steps.step("rows that differ are read again")
        steps.reading(5, 10)
    assert told == []
    assert (steps.lines, steps.rows, steps.expected) == (["rows that differ are read again"], 5, 10)
