"""Samples of the catalog's metrics as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from cdc.metrics.catalog import Metric


class Sample(NamedTuple):
    """One value of a metric; ``value`` of a state set is the state that holds."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | str


class _OfCatalog(Collector):
    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        by_metric: dict[Metric, list[Sample]] = {}
        for sample in self._samples():
            by_metric.setdefault(sample.metric, []).append(sample)
        for metric, samples in by_metric.items():
            yield _family(metric, samples)


def registry_of(samples: Callable[[], Iterable[Sample]]) -> CollectorRegistry:
    """What is exported: memory, handles and processor time of this process, and what ``samples``
    gives at each scrape. It must not wait for a server."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_OfCatalog(samples))
    return registry


def exposed(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """What a scrape gets: its content type, as the header ``Accept`` wants it, and its body."""
    encode, kind = choose_encoder(accept)
    return kind, encode(registry)


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    if metric.kind == "stateset":
        states = StateSetMetricFamily(metric.name, metric.help, labels=metric.labels)
        for one in samples:
            states.add_metric(one.labels, {state: state == one.value for state in metric.states})
        return states
    if metric.kind == "info":
        info = InfoMetricFamily(metric.name, metric.help)
        for one in samples:
            info.add_metric((), dict(zip(metric.labels, one.labels, strict=True)))
        return info
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for one in samples:
        assert not isinstance(one.value, str), "only states are words"
        assert len(one.labels) == len(metric.labels), metric.name
        family.add_metric(one.labels, one.value)
    return family
