"""The metrics and probes of ``headwater capture`` and ``headwater apply``: what each tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from cdc.capture.loop import Capture
from cdc.config import Config
from cdc.lag.capture_watch import CaptureWatch
from cdc.lag.observer import Observer
from cdc.lag.report import Report
from cdc.lag.states import State
from cdc.metrics import catalog
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.lag_samples import capture_samples, view_samples
from cdc.metrics.probes import Probes
from cdc.metrics.server import MetricsServer
from headwater.lag.watch import LagWatch, Seen


@contextmanager
def capture_metrics(config: Config, run: Capture, probes: Probes) -> Iterator[None]:
    """Serve them while the block lasts, if the configuration says where. Raises ``UsageError``
    where that is not possible."""
    address = config.metrics.capture
    if not address:
        yield
        return
    watch = CaptureWatch(config, lambda: run.counters)
    observer = Observer(watch.look, watch.close)
    probes.ready_unless(lambda: capture_missing(run.trouble, observer))

    def samples() -> Iterator[Sample]:
        yield from _of_process("capture", observer)
        source, done = config.source.name, run.counters
        yield Sample(catalog.CAPTURE_RECORDS, (source,), done.records)
        yield Sample(catalog.CAPTURE_RECEIVED, (source,), done.received)
        yield Sample(catalog.CAPTURE_DURABLE, (source,), done.durable)
        yield Sample(catalog.CAPTURE_CONFIRMED, (source,), done.confirmed)
        seen = observer.fresh
        yield from capture_samples(source, seen.found if seen else None, time.time())

    with _served(address, "metrics.capture", samples, probes, observer):
        yield


@contextmanager
def apply_metrics(
    config: Callable[[], Config], names: Sequence[str], probes: Probes
) -> Iterator[None]:
    """The same of views: of those with these names, of all if there is none. ``config`` gives the
    configuration as it is now."""
    declared = config()
    address = declared.metrics.apply
    if not address:
        yield
        return
    watch = LagWatch(config, names, by_apply=True)
    observer = Observer(watch.look, watch.close)
    probes.ready_unless(lambda: views_missing(observer))

    def samples() -> Iterator[Sample]:
        yield from _of_process("apply", observer)
        seen, now_s = observer.fresh, time.time()
        for view in seen.found.unmeasured if seen else names or declared.views:
            yield from view_samples(view, None, None, now_s, now_s)
        if seen is None:
            return
        report = seen.found.report
        for one in report.views:
            yield from view_samples(one.view, one, report.capture.lag_s, report.lag.at_s, now_s)

    with _served(address, "metrics.apply", samples, probes, observer):
        yield


def capture_missing(trouble: str, observer: Observer[Report]) -> list[str]:
    """What capture lacks to do its work."""
    if trouble:
        return [trouble]
    if (seen := observer.fresh) is None:
        return ["the source was not looked at yet, or has not answered"]
    capture = seen.found.capture
    if capture.blocked_by is not None:
        return [capture.blocked_by.text]
    if capture.state == State.SOURCE_UNKNOWN:
        return ["the source does not answer, or no heartbeat comes through"]
    return []


def views_missing(observer: Observer[Seen]) -> list[str]:
    """Which views are not kept, and why."""
    if (seen := observer.fresh) is None:
        return ["lag was not measured yet, or a server has not answered"]
    views = seen.found.report.views
    blocked = [one.blocked_by.text for one in views if one.blocked_by is not None]
    unknown = seen.found.unmeasured.items()
    return [*blocked, *(f"view {view} cannot be measured: {error}" for view, error in unknown)]


@contextmanager
def _served(
    address: str,
    setting: str,
    samples: Callable[[], Iterator[Sample]],
    probes: Probes,
    observer: Observer[Report] | Observer[Seen],
) -> Iterator[None]:
    server = MetricsServer(address, setting, registry_of(samples), probes)
    observer.start()
    try:
        yield
    finally:
        server.close()
        observer.end()


def _of_process(name: str, observer: Observer[Report] | Observer[Seen]) -> Iterator[Sample]:
    yield Sample(catalog.BUILD, (version("headwater"), name), 1)
    if (seen := observer.seen) is not None:
        yield Sample(catalog.MEASURED, (name,), seen.at_s)
