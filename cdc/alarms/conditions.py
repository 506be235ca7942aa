"""When an alarm fires: each kind of condition as PromQL, and judged by a process itself. Pure.

Capture and apply both export what they know of the source, so every expression takes the greatest
value, or the smallest, of those with the same labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, Protocol

from cdc.alarms.readings import Labels, Readings
from cdc.metrics.metric import Metric

_MEMORY: Final = "1d"
"""For so long the last value of a process that has gone counts."""
_GAP: Final = "60s"
"""For so long the last value of a ``lasting`` condition counts when no process has one: one look
that the source does not answer is no news."""


class Condition(Protocol):
    """It fires with the labels of ``metric``, but for the one that ``OneOf`` chooses by."""

    @property
    def metric(self) -> Metric: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    def promql(self) -> str: ...
    def holds(self, readings: Readings) -> Iterator[Labels]: ...


@dataclass(frozen=True, slots=True)
class Above:
    """The greatest value is more than ``factor`` times ``limit``; ``size``: whatever its sign."""

    metric: Metric
    limit: Metric | float
    factor: float = 1.0
    size: bool = False
    lasting: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        value = _value("max", self.metric, "abs({})" if self.size else "{}", self.lasting)
        return f"{value} {_limit('>', self)}"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        for labels, value in readings.values(self.metric):
            limit = _limited(self.limit, labels, readings)
            if limit is not None and (abs(value) if self.size else value) > self.factor * limit:
                yield labels


@dataclass(frozen=True, slots=True)
class Below:
    """The smallest value is less than ``limit``."""

    metric: Metric
    limit: float
    lasting: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        return f"{_value('min', self.metric, lasting=self.lasting)} < {self.limit:g}"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        return (labels for labels, value in readings.values(self.metric) if value < self.limit)


@dataclass(frozen=True, slots=True)
class Zero:
    """No process that exports it has another value than 0."""

    metric: Metric
    lasting: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        return f"{_value('max', self.metric, lasting=self.lasting)} == 0"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        return (labels for labels, value in readings.values(self.metric) if value == 0)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of ``values`` holds of a state set, or a sample has it in its last label."""

    metric: Metric
    values: tuple[str, ...]
    lasting: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels if self.metric.states else self.metric.labels[:-1]

    def promql(self) -> str:
        label = self.metric.name if self.metric.states else self.metric.labels[-1]
        chosen = f'{self.metric.exported}{{{label}=~"{"|".join(self.values)}"}}'
        return f"{_lasting('max', self.labels, '{}', chosen, self.lasting)} == 1"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        if self.metric.states:
            found = readings.states(self.metric)
            return (labels for labels, state in found if state in self.values)
        return (labels[:-1] for labels, _ in readings.values(self.metric)
                if labels[-1] in self.values)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Older:
    """A moment lies more than ``factor`` times ``limit`` seconds back. ``after_end``: also when
    nobody exports it any more, for a process that is dead says nothing."""

    metric: Metric
    limit: Metric | float
    factor: float = 1.0
    after_end: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        newest = self.metric.exported
        if self.after_end:
            newest = f"last_over_time({newest}[{_MEMORY}])"
        return f"time() - {_of('max', self.metric, newest)} {_limit('>', self, self.after_end)}"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        for labels, at_s in readings.values(self.metric):
            limit = _limited(self.limit, labels, readings)
            if limit is not None and readings.now_s - at_s > self.factor * limit:
                yield labels


@dataclass(frozen=True, slots=True)
class Grows:
    """A counter is greater than it was so many ``minutes`` ago."""

    metric: Metric
    minutes: int

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        window = f"increase({self.metric.exported}[{self.minutes}m])"
        return f"{_of('max', self.metric, window)} > 0"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        for labels, value in readings.values(self.metric):
            past = readings.window(self.metric, labels, self.minutes * 60)
            if past and value > past[0]:
                yield labels


@dataclass(frozen=True, slots=True)
class Stands:
    """``metric`` has not changed in so many ``minutes``, though ``beside`` has."""

    metric: Metric
    beside: Metric
    minutes: int

    @property
    def labels(self) -> tuple[str, ...]:
        return self.metric.labels

    def promql(self) -> str:
        still, moves = (
            _of("max", one, f"changes({one.exported}[{self.minutes}m])")
            for one in (self.metric, self.beside)
        )
        return f"{still} == 0 and {moves} > 0"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        for labels, _ in readings.values(self.metric):
            still, moves = (
                set(readings.window(one, labels, self.minutes * 60))
                for one in (self.metric, self.beside)
            )
            if len(still) == 1 and len(moves) > 1:
                yield labels


@dataclass(frozen=True, slots=True)
class Unless:
    """``condition`` holds, and ``other`` does not for the same values of the labels ``on``."""

    condition: Condition
    other: Condition
    on: tuple[str, ...] = ("source",)

    @property
    def metric(self) -> Metric:
        return self.condition.metric

    @property
    def labels(self) -> tuple[str, ...]:
        return self.condition.labels

    def promql(self) -> str:
        one, other = self.condition.promql(), self.other.promql()
        return f"({one}) unless on ({', '.join(self.on)}) ({other})"

    def holds(self, readings: Readings) -> Iterator[Labels]:
        others = {self._shared(self.other, labels) for labels in self.other.holds(readings)}
        found = self.condition.holds(readings)
        return (labels for labels in found if self._shared(self.condition, labels) not in others)

    def _shared(self, condition: Condition, labels: Labels) -> Labels:
        return tuple(labels[condition.labels.index(name)] for name in self.on)


def metrics_of(condition: Condition) -> list[Metric]:
    """Those that it compares."""
    if isinstance(condition, Unless):
        return [*metrics_of(condition.condition), *metrics_of(condition.other)]
    assert isinstance(condition, Above | Below | Zero | OneOf | Older | Grows | Stands)
    named = (getattr(condition, field.name) for field in fields(condition))
    return [one for one in named if isinstance(one, Metric)]


def remembered_by(condition: Condition) -> list[Metric]:
    """Those that it looks back at."""
    return metrics_of(condition) if isinstance(condition, Grows | Stands) else []


def _of(aggregation: str, metric: Metric, value: str = "") -> str:
    return f"{aggregation} by ({', '.join(metric.labels)}) ({value or metric.exported})"


def _value(aggregation: str, metric: Metric, of: str = "{}", lasting: bool = False) -> str:
    return _lasting(aggregation, metric.labels, of, metric.exported, lasting)


def _lasting(aggregation: str, labels: tuple[str, ...], of: str, chosen: str, lasting: bool) -> str:
    """Of all processes, ``of`` what is ``chosen`` now; if ``lasting``, else as it was last."""
    by = f"{aggregation} by ({', '.join(labels)})"
    now = f"{by} ({of.format(chosen)})"
    last = of.format(f"last_over_time({chosen}[{_GAP}])")
    return f"({now} or {by} ({last}))" if lasting else now


def _limit(sign: str, condition: Above | Older, after_end: bool = False) -> str:
    """What is compared with. A limit with fewer labels holds for all that have those."""
    limit, factor = condition.limit, condition.factor
    if not isinstance(limit, Metric):
        return f"{sign} {factor * limit:g}"
    value = f"last_over_time({limit.exported}[{_MEMORY}])" if after_end else limit.exported
    times = "" if factor == 1 else f"{factor:g} * "
    on = ""
    if limit.labels != condition.metric.labels:
        on = f"on ({', '.join(limit.labels)}) group_left () "
    lasting = isinstance(condition, Above) and condition.lasting
    greatest = _lasting("max", limit.labels, "{}", value, lasting)
    return f"{sign} {on}({times}{greatest})"


def _limited(limit: Metric | float, labels: Labels, readings: Readings) -> float | None:
    return readings.value(limit, labels) if isinstance(limit, Metric) else limit
