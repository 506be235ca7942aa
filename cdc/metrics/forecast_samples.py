"""When something is going to be lost, and how snapshots get on, as samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cdc.lag.report import CaptureReport, ViewReport
from cdc.metrics import forecast_catalog as catalog
from cdc.metrics.exposition import Sample


class SnapshotProgress(NamedTuple):
    """A snapshot that is not complete: ``done`` is from 0 to 1, ``moved_s`` in seconds since 1970,
    None while nobody reads; ``left_s`` is None while its speed is not known."""

    id: int
    rows: int
    done: float
    left_s: float | None
    moved_s: float | None


def source_forecasts(source: str, report: CaptureReport) -> Iterator[Sample]:
    """Of the slot and the volume of the source's WAL."""
    seen, forecast = report.lag.activity, report.forecast
    given = [
        (catalog.SLOT_FORECAST, forecast.slot_loss_s),
        (catalog.DISK_FORECAST, forecast.disk_full_s),
        (catalog.SOURCE_VOLUME, seen.volume_bytes if seen else None),
        (catalog.SOURCE_VOLUME_FREE, seen.volume_free_bytes if seen else None),
    ]
    yield from (Sample(metric, (source,), value) for metric, value in given if value is not None)


def view_forecasts(
    source: str, report: ViewReport, retention_s: Mapping[str, float]
) -> Iterator[Sample]:
    """Of a view. ``retention_s`` has for how long Kafka keeps records, by topic; without those that
    it keeps for good."""
    limited = [
        (one.in_kafka_s, retention_s[one.topic])
        for one in report.partitions
        if one.topic in retention_s
    ]
    if not limited:
        return
    labels = source, report.view
    used = max(age_s / kept_s for age_s, kept_s in limited)
    yield Sample(catalog.VIEW_RETENTION_USED, labels, used)
    waiting = [max(0.0, kept_s - age_s) for age_s, kept_s in limited if age_s]
    if waiting:
        yield Sample(catalog.VIEW_FORECAST, labels, min(waiting))


def snapshot_samples(source: str, snapshots: Iterable[SnapshotProgress]) -> Iterator[Sample]:
    """Of those that are not complete."""
    for one in snapshots:
        labels = source, str(one.id)
        yield Sample(catalog.SNAPSHOT_ROWS, labels, one.rows)
        yield Sample(catalog.SNAPSHOT_DONE, labels, one.done)
        if one.left_s is not None:
            yield Sample(catalog.SNAPSHOT_LEFT, labels, one.left_s)
        if one.moved_s is not None:
            yield Sample(catalog.SNAPSHOT_MOVED, labels, one.moved_s)
