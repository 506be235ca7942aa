"""Which alarms a process sees firing, from what it exports: the same that Prometheus would say.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.conditions import remembered_by
from cdc.alarms.readings import Readings
from cdc.alarms.rules import shared_labels
from cdc.metrics.exposition import Sample

_KEPT: Final = [
    metric for one in ALARMS for condition in one.conditions for metric in remembered_by(condition)
]


class Held(NamedTuple):
    """A condition of an alarm that holds for one source, or for one view of it."""

    alarm: Alarm
    labels: tuple[tuple[str, str], ...]

    @property
    def source(self) -> str:
        return self.labels[0][1]


class Judge:
    """Use from one thread. ``minute_s`` is 60 but in a test."""

    def __init__(self, minute_s: float = 60.0) -> None:
        self._minute_s = minute_s
        self._readings = Readings(_KEPT)
        self._since: dict[Held, float] = {}

    def look(self, now_s: float, samples: Iterable[Sample]) -> Mapping[Held, float]:
        """What fires now, since when its condition holds: without what its cause silences. A cause
        silences from the moment that its condition holds, so that it is the first to be told."""
        self._readings.add(now_s, samples)
        held = {
            Held(alarm, tuple(zip(condition.labels, labels, strict=True)))
            for alarm in ALARMS
            for condition in alarm.conditions
            for labels in condition.holds(self._readings)
        }
        self._since = {one: self._since.get(one, now_s) for one in held}
        return {
            one: since_s
            for one, since_s in self._since.items()
            if now_s - since_s >= one.alarm.for_minutes * self._minute_s and not self._silenced(one)
        }

    def holds(self, code: str, source: str) -> bool:
        """Whether a condition of the alarm holds for something of the source, silenced or not."""
        return any((one.alarm.code, one.source) == (code, source) for one in self._since)

    def _silenced(self, one: Held) -> bool:
        own = dict(one.labels)
        for code in one.alarm.inhibited_by:
            cause = BY_CODE[code]
            same = [(name, own[name]) for name in shared_labels(one.alarm, cause)]
            if any(it.alarm is cause and set(same) <= set(it.labels) for it in self._since):
                return True
        return False
