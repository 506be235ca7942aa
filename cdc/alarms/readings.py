"""The samples of one process over the last minutes: what alarms are judged by. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from cdc.lag.states import State
from cdc.metrics.exposition import Sample
from cdc.metrics.metric import Metric

REMEMBERED_S: Final = 3_600.0
"""No window of an alarm is longer."""
_EVERY_S: Final = 10.0
"""Of a counter that is remembered, one value in so long is kept."""

_UNKNOWN: Final = frozenset({State.NO_DATA, State.SOURCE_UNKNOWN})

Labels = tuple[str, ...]


class Readings:
    """``remembered`` are the metrics that some alarm looks back at."""

    def __init__(self, remembered: Collection[Metric]) -> None:
        self._remembered = frozenset(remembered)
        self._now: dict[Metric, dict[Labels, float | str]] = {}
        self._past: dict[tuple[Metric, Labels], deque[tuple[float, float]]] = {}
        self.now_s = 0.0

    def add(self, now_s: float, samples: Iterable[Sample]) -> None:
        """What is exported at this moment, in place of what was before."""
        self.now_s, self._now = now_s, {}
        for metric, labels, value in samples:
            self._now.setdefault(metric, {})[labels] = value
            if metric in self._remembered and not isinstance(value, str):
                self._remember(metric, labels, value)

    def values(self, metric: Metric) -> Iterator[tuple[Labels, float]]:
        """Numbers of now, by the values of the metric's labels."""
        for labels, value in self._now.get(metric, {}).items():
            assert not isinstance(value, str), metric.name
            yield labels, value

    def value(self, metric: Metric, labels: Labels) -> float | None:
        """The number of now with those labels, or the first of them."""
        known = self._now.get(metric, {})
        found = known.get(labels[: len(metric.labels)])
        assert not isinstance(found, str), metric.name
        return found

    def states(self, metric: Metric) -> Iterator[tuple[Labels, str]]:
        """The states of a state set that hold now."""
        return ((labels, str(value)) for labels, value in self._now.get(metric, {}).items())

    def tells(self, metric: Metric, labels: Labels) -> bool:
        """Whether something was measured: without a sample, and in states that say that nothing is
        known, what held before may still hold."""
        found = self._now.get(metric, {}).get(labels)
        return found is not None and found not in _UNKNOWN

    def window(self, metric: Metric, labels: Labels, seconds: float) -> list[float]:
        """What a remembered metric was, oldest first; empty while it was not seen for so long."""
        past = self._past.get((metric, labels[: len(metric.labels)]), deque())
        if not past or past[0][0] > self.now_s - seconds:
            return []
        return [value for at_s, value in past if at_s >= self.now_s - seconds - _EVERY_S]

    def _remember(self, metric: Metric, labels: Labels, value: float) -> None:
        past = self._past.setdefault((metric, labels), deque())
        if past and past[-1][0] > self.now_s - _EVERY_S and past[-1][1] == value:
            return
        past.append((self.now_s, value))
        while past[0][0] < self.now_s - REMEMBERED_S:
            past.popleft()
