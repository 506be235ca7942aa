"""The metrics and probes of ``headwater capture`` and ``headwater apply``: what each tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from typing import Literal

from cdc.alarms.webhook import Webhook
from cdc.capture.loop import Capture
from cdc.config import Config
from cdc.lag.capture_watch import CaptureWatch
from cdc.lag.observer import Observer
from cdc.lag.report import Report
from cdc.lag.states import State
from cdc.metrics import catalog
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.forecast_samples import snapshot_samples
from cdc.metrics.probes import Probes
from cdc.metrics.server import MetricsServer
from headwater.lag.samples import alert_samples, lag_samples, of_source
from headwater.lag.snapshot_watch import SnapshotWatch
from headwater.lag.watch import LagWatch, Seen


@contextmanager
def capture_metrics(config: Config, run: Capture, probes: Probes) -> Iterator[None]:
    """Serve them and send alarms while the block lasts, if the configuration says where. Raises
    ``UsageError`` where that is not possible."""
    if not (config.metrics.capture or config.alerts.webhook):
        yield
        return
    watch = CaptureWatch(config, lambda: run.counters)
    observer = Observer(watch.look, watch.close)
    snapshots = SnapshotWatch(config)
    probes.ready_unless(lambda: capture_missing(run.trouble, observer))

    def samples() -> Iterator[Sample]:
        yield from _of_process("capture", observer)
        source, done = config.source.name, run.counters
        yield Sample(catalog.CAPTURE_RECORDS, (source,), done.records)
        yield Sample(catalog.CAPTURE_RECEIVED, (source,), done.received)
        yield Sample(catalog.CAPTURE_DURABLE, (source,), done.durable)
        yield Sample(catalog.CAPTURE_CONFIRMED, (source,), done.confirmed)
        yield Sample(catalog.CAPTURE_DEAD_LETTERS, (source,), done.dead_letters)
        yield Sample(catalog.CAPTURE_NULL_VALUES, (source,), done.null_values)
        seen = observer.fresh
        yield from of_source(config, seen.found if seen else None)
        yield from snapshot_samples(source, snapshots.found)

    with closing(snapshots), _served(config, "capture", samples, probes, observer):
        yield


@contextmanager
def probes_alone(config: Config, missing: list[str]) -> Iterator[None]:
    """Of a capture that waits for a server before it can begin: serve its probes, not ready for
    what ``missing`` names then. Raises as ``capture_metrics``."""
    address = config.metrics.capture
    if not address:
        yield
        return
    waiting = Probes()
    waiting.moved()
    waiting.ready_unless(lambda: missing)
    waiting.begins = lambda: True
    with closing(MetricsServer(address, "metrics.capture", registry_of(list), waiting)):
        yield


@contextmanager
def apply_metrics(
    config: Callable[[], Config], names: Sequence[str], probes: Probes
) -> Iterator[None]:
    """The same of views: of those with these names, of all if there is none. ``config`` gives the
    configuration as it is now."""
    declared = config()
    if not (declared.metrics.apply or declared.alerts.webhook):
        yield
        return
    watch = LagWatch(config, names, by_apply=True)
    observer = Observer(watch.look, watch.close)
    probes.ready_unless(lambda: views_missing(observer))

    def samples() -> Iterator[Sample]:
        yield from _of_process("apply", observer)
        fresh = observer.fresh
        seen = fresh.found if fresh else None
        yield from lag_samples(declared, names, seen)
        yield from alert_samples(declared, seen)

    with _served(declared, "apply", samples, probes, observer):
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
    config: Config,
    process: Literal["capture", "apply"],
    samples: Callable[[], Iterator[Sample]],
    probes: Probes,
    observer: Observer[Report] | Observer[Seen],
) -> Iterator[None]:
    """To Prometheus, to a webhook, or to both."""
    alerts, address = config.alerts, getattr(config.metrics, process)
    with ExitStack() as stack:
        if address:
            registry = registry_of(samples)
            server = MetricsServer(address, f"metrics.{process}", registry, probes)
            stack.enter_context(closing(server))
        observer.start()
        stack.callback(observer.end)
        if alerts.webhook:
            webhook = Webhook(alerts.webhook, alerts.secret_file, process, samples)
            webhook.start()
            stack.callback(webhook.close)
        yield


def _of_process(name: str, observer: Observer[Report] | Observer[Seen]) -> Iterator[Sample]:
    yield Sample(catalog.BUILD, (version("headwater"), name), 1)
    if (seen := observer.seen) is not None:
        yield Sample(catalog.MEASURED, (name,), seen.at_s)
