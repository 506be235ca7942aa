"""A report on lag as samples. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.lag.report import CaptureReport, Report, ViewReport
from cdc.lag.slot_activity import SlotActivity
from cdc.lag.states import State
from cdc.metrics import catalog
from cdc.metrics.catalog import Metric
from cdc.metrics.exposition import Sample

Given = tuple[Metric, float | None]


def capture_samples(source: str, report: Report | None, now_s: float) -> Iterator[Sample]:
    """Of capture and its slot; without a report only that there is none."""
    if report is None:
        yield Sample(catalog.CAPTURE_STATE, (source,), State.NO_DATA)
        return
    capture, lag = report.capture, report.lag
    yield Sample(catalog.CAPTURE_STATE, (source,), capture.state)
    if capture.blocked_by:
        yield Sample(catalog.CAPTURE_BLOCKED, (source, capture.blocked_by.cause), 1)
    yield from _known((source,), _of_capture(capture, now_s))
    yield from _known(
        (source,),
        [(catalog.CAPTURE_HEARTBEAT, lag.heartbeat_s), (catalog.CAPTURE_MARK, lag.marked_s)],
    )
    if (seen := capture.lag.activity) is not None:
        yield from _known((source,), _of_source(seen))
        if seen.exists:
            yield from _known((source,), _of_slot(seen))
            if seen.wal_status in catalog.WAL_STATUSES:
                yield Sample(catalog.SLOT_WAL_STATUS, (source,), seen.wal_status)
        if seen.wait_event:
            yield Sample(catalog.WALSENDER_WAIT, (source, seen.wait_event), 1)


def view_samples(
    source: str,
    view: str,
    report: ViewReport | None,
    capture_lag_s: float | None,
    at_s: float,
    now_s: float,
) -> Iterator[Sample]:
    """Of one view, as of a report of the moment ``at_s``; without one only that there is none."""
    own = source, view
    if report is None:
        yield Sample(catalog.VIEW_STATE, own, State.NO_DATA)
        return
    yield Sample(catalog.VIEW_STATE, own, report.state)
    if report.state == State.NO_DATA:
        return
    since_s = now_s - at_s
    if report.blocked_by:
        yield Sample(catalog.VIEW_BLOCKED, (*own, report.blocked_by.cause), 1)
    yield from _known(own, _of_view(report, at_s, since_s))
    hops = zip(catalog.HOPS, (capture_lag_s, report.in_kafka_s), strict=True)
    for hop, lag_s in hops:
        if lag_s is not None:
            yield Sample(catalog.VIEW_HOP, (*own, hop), _grown(lag_s, since_s))
    for one in report.partitions:
        labels = *own, one.topic, str(one.partition)
        yield Sample(catalog.VIEW_PARTITION_RECORDS, labels, one.behind_records)
        yield Sample(catalog.VIEW_PARTITION_SECONDS, labels, _grown(one.behind_s, since_s))


def _of_capture(report: CaptureReport, now_s: float) -> list[Given]:
    until_s, rates = report.complete_until_s, report.rates
    lag_s = report.lag_s
    if lag_s and until_s is not None:
        lag_s = max(0.0, now_s - until_s)
    return [
        (catalog.CAPTURE_LAG_SECONDS, lag_s),
        (catalog.CAPTURE_COMPLETE, until_s),
        (catalog.CAPTURE_CATCH_UP, rates.catch_up_s if rates else None),
    ]


def _of_source(seen: SlotActivity) -> list[Given]:
    return [
        (catalog.SOURCE_WAL, seen.wal_end),
        (catalog.SOURCE_CLOCK, seen.clock_ahead_s),
        (catalog.SOURCE_TRANSACTION, seen.oldest_transaction_s),
    ]


def _of_slot(seen: SlotActivity) -> list[Given]:
    return [
        (catalog.SLOT_ACTIVE, float(seen.pid is not None)),
        (catalog.SLOT_INACTIVE, seen.inactive_since_s),
        (catalog.SLOT_CONFIRMED, seen.confirmed),
        (catalog.SLOT_RESTART, seen.restart),
        (catalog.SLOT_RETAINED, seen.retained_bytes),
        (catalog.SLOT_UNCONFIRMED, seen.unconfirmed_bytes),
        (catalog.SLOT_SAFE, seen.safe_wal_size),
        (catalog.SLOT_SPILLED, seen.spilled_bytes),
        (catalog.SLOT_SPILLED_TRANSACTIONS, seen.spilled_transactions),
        (catalog.SLOT_XMIN_AGE, seen.catalog_xmin_age),
    ]


def _of_view(report: ViewReport, at_s: float, since_s: float) -> list[Given]:
    rates = report.rates
    return [
        (catalog.VIEW_LAG_SECONDS, _grown(report.lag_s, since_s)),
        (catalog.VIEW_OLDEST, at_s - report.lag_s if report.lag_s else None),
        (catalog.VIEW_RECORDS, report.behind_records),
        (catalog.VIEW_BYTES, report.behind_bytes),
        (catalog.VIEW_APPLIED, rates.done if rates else None),
        (catalog.VIEW_ADDED, rates.added if rates else None),
        (catalog.VIEW_CATCH_UP, rates.catch_up_s if rates else None),
        (catalog.VIEW_MOVED, report.moved_s),
        (catalog.VIEW_HEARTBEAT, report.heartbeat_s),
        (catalog.VIEW_PARKED, report.parked_keys),
        (catalog.VIEW_LOST, report.lost_records),
    ]


def _grown(lag_s: float, since_s: float) -> float:
    """A lag measured so long ago: what lacked then is taken to lack still."""
    return lag_s + since_s if lag_s else 0.0


def _known(labels: tuple[str, ...], given: list[Given]) -> Iterator[Sample]:
    return (Sample(metric, labels, value) for metric, value in given if value is not None)
