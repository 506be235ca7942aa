"""What a look at lag found, as samples: what processes export, and judge alarms by. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from cdc.config import Config
from cdc.lag.report import Report
from cdc.metrics import catalog, forecast_catalog, serve_catalog
from cdc.metrics.exposition import Sample
from cdc.metrics.forecast_samples import source_forecasts, view_forecasts
from cdc.metrics.lag_samples import capture_samples, view_samples
from headwater.lag.verified import Verified
from headwater.lag.watch import Seen


def lag_samples(config: Config, names: Sequence[str], seen: Seen | None) -> Iterator[Sample]:
    """Of source, capture and views: of those with these names, of all if there is none. Without a
    look that says something of now: that views have no data."""
    source, now_s = config.source.name, time.time()
    for view in seen.unmeasured if seen else names or config.views:
        yield from view_samples(source, view, None, None, now_s, now_s)
    if seen is None:
        return
    report, kept_s = seen.report, seen.retention_s
    yield from of_source(config, report)
    lag_s, at_s = report.capture.lag_s, report.lag.at_s
    for one in report.views:
        yield from view_samples(source, one.view, one, lag_s, at_s, now_s)
        yield from view_forecasts(source, one, kept_s)
        if (found := seen.verified.get(one.view)) is not None:
            yield from of_checks(source, one.view, found)
        yield Sample(catalog.VIEW_LAG_TARGET, (source, one.view), config.alerts.lag_s)


def alert_samples(config: Config, seen: Seen | None) -> Iterator[Sample]:
    """Of alerts on rows; none without a look that says something of now."""
    for one in seen.alerts if seen else ():
        labels = config.source.name, one.alert
        yield Sample(serve_catalog.ROW_ALERT_STATE, labels, one.state)
        if one.lag_s is not None:
            yield Sample(serve_catalog.ROW_ALERT_SECONDS, labels, one.lag_s)
        if one.dead_letters is not None:
            yield Sample(serve_catalog.ROW_ALERT_LETTERS, labels, one.dead_letters)
        if one.undelivered_s is not None:
            yield Sample(serve_catalog.ROW_ALERT_UNDELIVERED, labels, one.undelivered_s)
        yield Sample(serve_catalog.ROW_ALERT_LIMIT, labels, config.alerts.lag_s)


def of_checks(source: str, view: str, found: Verified) -> Iterator[Sample]:
    """Of a view that is compared with the source in the background."""
    labels = source, view
    if found.equal_s is not None and found.equal_lsn is not None:
        yield Sample(forecast_catalog.VIEW_VERIFIED, labels, found.equal_s)
        yield Sample(forecast_catalog.VIEW_VERIFIED_LSN, labels, found.equal_lsn)
    if found.lsn:
        yield Sample(forecast_catalog.VIEW_DIFFERENCES, labels, len(found.differing))


def of_source(config: Config, report: Report | None) -> Iterator[Sample]:
    """Of the source, its slot and capture: apply tells it, too, also while capture is dead."""
    source = config.source.name
    if every_s := config.capture.heartbeat_s:
        yield Sample(catalog.SOURCE_HEARTBEAT_EVERY, (source,), every_s)
    yield from capture_samples(source, report, time.time())
    if report is not None:
        yield from source_forecasts(source, report.capture)
