"""Which messages about alarms are due: one for an alarm of a source, whatever the number of its
views, at most one in ``SPACING_S``, and one when it is over. Pure.

Nothing is queued: a message that could not be sent is due again as things stand then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from cdc.alarms.alarm import Alarm
from cdc.alarms.judge import Held, Judge

SPACING_S: Final = 900.0

Status = Literal["firing", "resolved"]
Things = frozenset[tuple[tuple[str, str], ...]]
Key = tuple[str, str]


class Message(NamedTuple):
    """``id`` stays the same when it is sent again, and is another one of anything else: of another
    process, of further views, or after a restart."""

    id: str
    status: Status
    alarm: Alarm
    source: str
    things: Things
    since_s: float
    at_s: float

    def document(self, process: str) -> dict[str, object]:
        """The body, in the form that Standard Webhooks proposes."""
        alarm = self.alarm
        things = [dict(thing) for thing in sorted(self.things)]
        of = {"source": self.source, **(things[0] if things else {})}
        summary = alarm.summary.format_map(of)
        if len(things) > 1:
            summary += f", and {len(things) - 1} more"
        return {
            "type": f"headwater.alarm.{self.status}",
            "timestamp": _iso(self.at_s),
            "data": {
                "code": alarm.code,
                "name": alarm.name,
                "severity": alarm.severity,
                "status": self.status,
                "source": self.source,
                "of": things,
                "since": _iso(self.since_s),
                "summary": summary,
                "means": alarm.guide.means,
                "recover": list(alarm.guide.recover),
                "explain": f"headwater explain {alarm.code}",
                "process": process,
            },
        }


@dataclass(slots=True)
class _Told:
    """What the receiver knows of one alarm of a source."""

    alarm: Alarm
    open: bool = False
    at_s: float | None = None
    things: Things = frozenset()
    since_s: float = 0.0


class Messages:
    """Use from one thread."""

    def __init__(self, judge: Judge, spacing_s: float = SPACING_S) -> None:
        self._judge, self._spacing_s = judge, spacing_s
        self._told: dict[Key, _Told] = {}

    def due(self, now_s: float, firing: Mapping[Held, float]) -> Iterator[Message]:
        """What is to be sent as things stand. Call ``sent`` for each that was."""
        by_key: dict[Key, dict[Held, float]] = {}
        for held, since_s in firing.items():
            by_key.setdefault((held.alarm.code, held.source), {})[held] = since_s
            self._told.setdefault((held.alarm.code, held.source), _Told(held.alarm))
        for key, told in list(self._told.items()):
            if key in by_key:
                yield from self._firing(now_s, key, told, by_key[key])
            elif told.open and not self._judge.holds(*key):
                yield self._message(now_s, key, told, "resolved", told.things, told.since_s)

    def sent(self, message: Message) -> None:
        """The receiver has it."""
        told = self._told[message.alarm.code, message.source]
        told.open = message.status == "firing"
        if told.open:
            told.at_s, told.things = message.at_s, message.things
            told.since_s = message.since_s

    def _firing(
        self, now_s: float, key: Key, told: _Told, held: Mapping[Held, float]
    ) -> Iterator[Message]:
        things = frozenset(one.labels[1:] for one in held)
        known = told.open and things <= told.things
        if not known and (told.at_s is None or now_s - told.at_s >= self._spacing_s):
            yield self._message(now_s, key, told, "firing", things, min(held.values()))

    def _message(
        self, now_s: float, key: Key, told: _Told, status: Status, things: Things, since_s: float
    ) -> Message:
        named = repr((key, status, since_s, sorted(things)))
        number = hashlib.sha256(named.encode()).hexdigest()[:32]
        return Message(f"msg_{number}", status, told.alarm, key[1], things, since_s, now_s)


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
