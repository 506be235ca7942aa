"""Freshness out of logs, with and without what the kills did to it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from demo.freshness import Batch, Window, batches, freshness, undisturbed


def line(at: float, view: str, fresh_ms: list[float]) -> str:
    timestamp = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return json.dumps(
        {"view": view, "fresh_ms": fresh_ms, "event": "rows_applied", "timestamp": timestamp}
    )


def test_batches_are_found_among_other_lines_and_half_a_line_says_nothing() -> None:
    whole = line(100.0, "flights", [3, 5])
    lines = ["WARN something of the JVM's", '{"event": "started"}', whole, whole[:-20]]
    assert list(batches(lines)) == [Batch(100.0, "flights", (3, 5))]


def test_percentiles_are_values_that_occurred() -> None:
    found = [Batch(1.0, "a", tuple(range(1, 101))), Batch(1.0, "b", (7.0,))]
    assert freshness(found, "a", 0, 2) == (50, 99, 100)
    assert freshness(found, "b", 0, 2) == (7.0, 7.0, 1)
    assert freshness(found, "c", 0, 2) == (None, None, 0)


def test_what_was_applied_before_the_traffic_does_not_count() -> None:
    found = [Batch(1.0, "a", (9_000.0,)), Batch(5.0, "a", (10.0,))]
    assert freshness(found, "a", 2, 9) == (10.0, 10.0, 1)


def test_kill_windows_leave_out_only_the_views_they_concern() -> None:
    found = [Batch(5.0, "a", (4_000.0,)), Batch(5.0, "b", (20.0,)), Batch(8.0, "a", (10.0,))]
    windows = [Window(4.0, 6.0, ("a",))]
    assert undisturbed(found, "a", 0, 9, windows) == (10.0, 10.0, 1)
    assert undisturbed(found, "b", 0, 9, windows) == (20.0, 20.0, 1)
