"""Freshness, from commit to visible, out of what the Spark job logs. Pure.

Every ``rows_applied`` line of the job carries ``fresh_ms``: a sorted sample, in milliseconds, of
the time from a change's commit to the end of the batch that applied it (live changes only).
A batch falls into a kill window when it was applied between a ``kill -9`` and the moment the
killed process had caught up with all that was written before it was back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple


class Batch(NamedTuple):
    """One applied batch: when (seconds since the epoch), of which view, how fresh."""

    at: float
    view: str
    fresh_ms: tuple[float, ...]


class Window(NamedTuple):
    """A span of time, in seconds since the epoch, that concerns the named views."""

    start: float
    end: float
    views: tuple[str, ...]


class Freshness(NamedTuple):
    """Percentiles in milliseconds; None without a sample."""

    p50_ms: float | None
    p99_ms: float | None
    samples: int


def batches(lines: Iterable[str]) -> Iterator[Batch]:
    """The batches a job's log tells of. Other lines, and a line cut by a kill, say nothing."""
    for line in lines:
        if '"rows_applied"' not in line:
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:  # kill -9 cuts the last line anywhere
            continue
        at = datetime.fromisoformat(entry["timestamp"]).timestamp()
        yield Batch(at, entry["view"], tuple(entry.get("fresh_ms") or ()))


def freshness(found: Sequence[Batch], view: str, start: float, end: float) -> Freshness:
    """Of one view, over batches applied from ``start`` to ``end``."""
    return _percentiles(
        value
        for batch in found
        if batch.view == view and start <= batch.at <= end
        for value in batch.fresh_ms
    )


def undisturbed(
    found: Sequence[Batch], view: str, start: float, end: float, windows: Sequence[Window]
) -> Freshness:
    """The same, without the batches that fall into a kill window of the view."""
    outside = [
        batch
        for batch in found
        if not any(w.start <= batch.at <= w.end and batch.view in w.views for w in windows)
    ]
    return freshness(outside, view, start, end)


def _percentiles(values: Iterable[float]) -> Freshness:
    ordered = sorted(values)
    if not ordered:
        return Freshness(None, None, 0)
    return Freshness(_at(ordered, 0.50), _at(ordered, 0.99), len(ordered))


def _at(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all values do not exceed."""
    return ordered[max(0, -(-len(ordered) * round(share * 100) // 100) - 1)]
