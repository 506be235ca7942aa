"""Which alarms a process sees firing, from what it exports: the same that Prometheus would say.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import ALARMS, BY_CODE
from cdc.alarms.conditions import Condition, remembered_by
from cdc.alarms.readings import Readings
from cdc.alarms.rules import shared_labels
from cdc.lag.report import OVERDUE
from cdc.lag.states import State
from cdc.metrics import catalog as m
from cdc.metrics import serve_catalog as s
from cdc.metrics.exposition import Sample

_KEPT: Final = [
    metric for one in ALARMS for condition in one.conditions for metric in remembered_by(condition)
]

GAP_S: Final = 60.0
"""For so long a condition is taken to hold of which nothing is measured any more."""
_UNBEATEN_S: Final = 30.0
"""How old a mark may be of a capture that works, where no heartbeats are written."""
_TOLD_BY: Final = {m.CAPTURE_BLOCKED: m.CAPTURE_STATE, m.VIEW_BLOCKED: m.VIEW_STATE}
"""What has no sample while all is well is known while these are."""


class Held(NamedTuple):
    """A condition of an alarm that holds for one source, or for one view or alert of it."""

    alarm: Alarm
    labels: tuple[tuple[str, str], ...]

    @property
    def source(self) -> str:
        return self.labels[0][1]

    @property
    def of_view(self) -> bool:
        return any(name == "view" for name, _ in self.labels)

    @property
    def of_alert(self) -> bool:
        return any(name == "alert" for name, _ in self.labels)


class Judge:
    """Use from one thread. ``minute_s`` is 60 but in a test. ``by_apply``: alarms of the source are
    another process's to tell while capture works, and those of alerts on rows while somebody sends
    one of them."""

    def __init__(self, minute_s: float = 60.0, by_apply: bool = False) -> None:
        self._minute_s, self._by_apply = minute_s, by_apply
        self._readings = Readings(_KEPT)
        self._since: dict[Held, float] = {}
        self._seen: dict[Held, float] = {}
        """When each was last seen to hold."""
        self._fired: set[Held] = set()

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
        self._seen |= dict.fromkeys(held, now_s)
        self._since = {
            one: self._since.get(one, now_s)
            for one, seen_s in self._seen.items()
            if one in held or (now_s - seen_s < GAP_S and not self._tells(one))
        }
        self._seen = {one: self._seen[one] for one in self._since}
        self._fired = {
            one
            for one, since_s in self._since.items()
            if now_s - since_s >= one.alarm.for_minutes * self._minute_s
            and (one in held or one in self._fired)
        }
        return {
            one: self._since[one]
            for one in self._fired
            if not self._silenced(one) and self._is_ours(one)
        }

    def holds(self, code: str, source: str) -> bool:
        """Whether a condition of the alarm holds for something of the source, silenced or not."""
        return any((one.alarm.code, one.source) == (code, source) for one in self._since)

    def _tells(self, one: Held) -> bool:
        """Whether anything that could say that it holds was measured."""
        names, labels = zip(*one.labels, strict=True)

        def told(condition: Condition) -> bool:
            metric = _TOLD_BY.get(condition.metric, condition.metric)
            return condition.labels == names and self._readings.tells(metric, labels)

        return any(map(told, one.alarm.conditions))

    def _is_ours(self, one: Held) -> bool:
        if one.of_view or not self._by_apply:
            return True
        if one.of_alert:
            return not self._alerts_are_sent(one.source)
        return not self._capture_works(one.source)

    def _alerts_are_sent(self, source: str) -> bool:
        """Some `headwater serve` runs."""
        states = self._readings.states(s.ROW_ALERT_STATE)
        return any(state != State.BLOCKED for labels, state in states if labels[0] == source)

    def _capture_works(self, source: str) -> bool:
        """Somebody reads the slot; while the source does not tell, marks are written."""
        own, readings = (source,), self._readings
        active = readings.value(m.SLOT_ACTIVE, own)
        if active is not None:
            return active == 1
        every_s = readings.value(m.SOURCE_HEARTBEAT_EVERY, own) or 0.0
        marked_s = readings.value(m.CAPTURE_MARK, own) or 0.0
        return readings.now_s - marked_s <= (OVERDUE * every_s or _UNBEATEN_S)

    def _silenced(self, one: Held) -> bool:
        own = dict(one.labels)
        for code in one.alarm.inhibited_by:
            cause = BY_CODE[code]
            same = [(name, own[name]) for name in shared_labels(one.alarm, cause)]
            if any(it.alarm is cause and set(same) <= set(it.labels) for it in self._since):
                return True
        return False
