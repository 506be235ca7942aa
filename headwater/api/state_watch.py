"""How everything is, looked at once a second by a thread, and what the process tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from cdc.config import Config
from cdc.lag.observer import Observer
from cdc.metrics import catalog
from cdc.metrics.exposition import Sample, registry_of
from cdc.metrics.probes import Probes
from headwater.lag.watch import LagWatch, Seen


class Watching:
    """The lag of capture and views, the probes, and the registry of metrics."""

    def __init__(self, config: Config) -> None:
        watch = LagWatch(lambda: config)
        self._observer: Observer[Seen] = Observer(watch.look, watch.close)
        self.samples: Callable[[], Iterable[Sample]] = tuple
        self.registry = registry_of(self._all)
        self.probes = Probes()
        self.probes.ready_unless(self._missing)

    @property
    def seen(self) -> Seen | None:
        """The last look, unless it says nothing of now."""
        fresh = self._observer.fresh
        return fresh.found if fresh else None

    def start(self) -> None:
        self._observer.start()

    def end(self) -> None:
        self._observer.end()

    def _missing(self) -> list[str]:
        if self._observer.fresh is None:
            return ["lag was not measured yet, or a server has not answered"]
        return []

    def _all(self) -> Iterator[Sample]:
        yield Sample(catalog.BUILD, (version("headwater"), "serve"), 1)
        if (seen := self._observer.seen) is not None:
            yield Sample(catalog.MEASURED, ("serve",), seen.at_s)
        yield from self.samples()
