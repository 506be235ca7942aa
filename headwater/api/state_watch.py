"""How everything is, looked at once a second by a thread, for all clients together; and what the
process tells of itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import NamedTuple

from cdc.alarms.judge import Held, Judge
from cdc.alarms.webhook import Webhook
from cdc.config import Config
from cdc.lag.observer import Observer
from cdc.lag.rates import Count, Progress
from cdc.metrics import catalog
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.forecast_samples import snapshot_samples
from cdc.metrics.probes import Probes
from headwater.lag.samples import alert_samples, lag_samples
from headwater.lag.snapshot_watch import SnapshotWatch
from headwater.lag.watch import LagWatch, Seen
from headwater.pipeline.build import no_data, picture
from headwater.pipeline.picture import Pipeline

_UNMEASURED = "lag was not measured yet, or a server has not answered"


class Look(NamedTuple):
    """What one look found, and the picture of it."""

    seen: Seen
    picture: Pipeline


class Watching:
    """The lag of capture and views, the alarms, the probes, and the registry of metrics. ``noted``
    is called on the thread with each picture. Of alarms those of alerts on rows are told to a
    webhook from here: the others are told by capture and apply."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._watch = LagWatch(lambda: config, lasting=True)
        self._observer: Observer[Look] = Observer(self._look, self._watch.close)
        self._judge = Judge()
        self._held: Mapping[Held, float] = {}
        self._judged_s: float | None = None
        self._published = _Published()
        self._snapshots: SnapshotWatch | None = None
        self._webhook: Webhook | None = None
        self.samples: Callable[[], Iterable[Sample]] = tuple
        self.noted: Callable[[Pipeline], None] = lambda _: None
        self.registry = registry_of(self._all)
        self.probes = Probes()
        self.probes.ready_unless(self._missing)

    @property
    def seen(self) -> Seen | None:
        """The last look, unless it says nothing of now."""
        fresh = self._observer.fresh
        return fresh.found.seen if fresh else None

    @property
    def picture(self) -> Pipeline:
        """The same as a picture; one without data while nothing is known."""
        fresh = self._observer.fresh
        if fresh is not None:
            return fresh.found.picture
        last = self._observer.seen
        problem = self._observer.failure or _UNMEASURED
        return no_data(self._config, problem, last.at_s if last else None, self._held)

    @property
    def judged_s(self) -> float | None:
        """When alarms were judged last, in seconds since 1970."""
        return self._judged_s

    def start(self) -> None:
        self._snapshots = SnapshotWatch(self._config)
        self._observer.start()
        alerts = self._config.alerts
        if alerts.webhook and alerts.rows:
            self._webhook = Webhook(alerts.webhook, alerts.secret_file, "serve", self.of_alerts)
            self._webhook.start()

    def end(self) -> None:
        if self._webhook is not None:
            self._webhook.close()
        self._observer.end()
        if self._snapshots is not None:
            self._snapshots.close()

    def of_alerts(self) -> Iterator[Sample]:
        """What alarms of alerts on rows are judged by; of no other alarm anything."""
        return alert_samples(self._config, self.seen)

    def _look(self) -> Look:
        """On the thread. What fails is told by the observer, and is no data in the past, too."""
        try:
            seen = self._watch.look()
        except Exception as error:
            self._judged(None)
            self.noted(no_data(self._config, str(error), None, self._held))
            raise
        self._judged(seen)
        made = picture(self._config, seen, time.time(), self._held, self._published.rate(seen))
        self.noted(made)
        return Look(seen, made)

    def _judged(self, seen: Seen | None) -> None:
        snapshots = self._snapshots.found if self._snapshots else ()
        samples = [
            *lag_samples(self._config, (), seen),
            *alert_samples(self._config, seen),
            *snapshot_samples(self._config.source.name, snapshots),
        ]
        now_s = time.time()
        self._held = self._judge.look(now_s, samples)
        self._judged_s = now_s

    def _missing(self) -> list[str]:
        fresh = self._observer.fresh
        if fresh is None:
            return [_UNMEASURED]
        if fresh.found.seen.report.capture.lag.activity is None:
            return ["the source does not answer"]
        return []

    def _all(self) -> Iterator[Sample]:
        yield Sample(catalog.BUILD, (version("headwater"), "serve"), 1)
        if (seen := self._observer.seen) is not None:
            yield Sample(catalog.MEASURED, ("serve",), seen.at_s)
        yield from alert_samples(self._config, self.seen)
        yield from self.samples()


class _Published:
    """How many records capture publishes in a second, by the offsets of its marks."""

    def __init__(self) -> None:
        self._progress, self._topics = Progress(), frozenset[str]()

    def rate(self, seen: Seen) -> float | None:
        """With one more look; None before the second one."""
        lag = seen.report.lag
        topics = frozenset(lag.marked_offsets)
        if topics != self._topics:  # those of a new one are no speed
            self._progress, self._topics = Progress(), topics
        if not topics:
            return None
        done = sum(at for own in lag.marked_offsets.values() for at in own.values())
        self._progress.add(Count(lag.at_s, done, done))
        rates = self._progress.rates
        return rates.done if rates else None
