"""What to do about what is seen, by the alarms that tell of it. Pure.

A state is told of at once, its alarm may fire only minutes later. What an alarm says besides is in
its guide, as ``headwater explain`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cdc.alarms.alarm import Alarm
from cdc.alarms.catalog import BY_CODE
from cdc.alarms.judge import Held
from cdc.lag.report import CaptureReport, ViewReport
from cdc.lag.states import State
from cdc.plural import plural
from headwater.lag.verified import Verified
from headwater.pipeline.picture import Advice, FiringAlarm
from verification.view_faults import NOT_APPLIED, STOPPED

SEVERITIES: Final = ("critical", "warning")
_BLOCKS: Final = {"no slot": "HW005", "slot lost": "HW005", "not running": "HW002"}
_VIEW_BLOCKS: Final = {STOPPED: "HW011", NOT_APPLIED: "HW013", "lost": "HW009"}
_CAPTURE_STATES: Final = {State.STALLED: "HW001", State.SOURCE_UNKNOWN: "HW001"}
_NEAR_S: Final = 7_200.0
"""As ``WalNearLimit`` has it."""


def of_capture(source: str, report: CaptureReport) -> Iterator[Advice]:
    """What to do about capture and its slot."""
    blocked = report.blocked_by
    if blocked is not None:
        yield advice(_BLOCKS[blocked.cause], f"{source}: {blocked.text}")
    elif report.state in _CAPTURE_STATES:
        yield advice(_CAPTURE_STATES[report.state], _summary("HW001", {"source": source}))
    first = report.forecast.first
    is_lost = blocked is not None and _BLOCKS[blocked.cause] == "HW005"
    if first is not None and first[0] < _NEAR_S and not is_lost:
        yield advice("HW004", f"{source}: in {first[0] / 60:,.0f} minutes {first[1]}")


def of_view(
    source: str,
    report: ViewReport,
    fault: Mapping[str, str] | None,
    verified: Verified | None,
    lag_target_s: float,
) -> Iterator[Advice]:
    """What to do about a view. ``fault`` is what ended it, with the way out."""
    of = {"source": source, "view": report.view}
    blocked = report.blocked_by
    if blocked is not None:
        hint = fault["hint"] if fault else ""
        yield advice(_VIEW_BLOCKS.get(blocked.cause, ""), blocked.text, hint)
    elif report.state == State.STALLED:
        yield advice("HW008", _summary("HW008", of))
    elif report.state not in (State.NO_DATA, State.SOURCE_UNKNOWN) and report.lag_s > lag_target_s:
        yield advice("HW007", _summary("HW007", of))
    if report.parked_keys:
        keys = plural(report.parked_keys, "key waits", "keys wait")
        yield advice("HW010", f"view {report.view}: {keys} as dead letters")
    if verified is not None and verified.differing:
        yield advice("HW015", _summary("HW015", of))


def firing(held: Mapping[Held, float]) -> tuple[FiringAlarm, ...]:
    """Alarms that fire, the worst first, the oldest first among equals."""
    found = [_firing(one, since_s) for one, since_s in held.items()]
    return tuple(sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.since_s)))


def of_alarms(alarms: Iterable[FiringAlarm]) -> Iterator[Advice]:
    """What to do about alarms."""
    return (advice(one.code, one.summary) for one in alarms)


def once(found: Iterable[Advice]) -> tuple[Advice, ...]:
    """Each once: of one code about the same thing the first says more. Critical ones first."""
    kept: dict[tuple[str, str], Advice] = {}
    for one in found:
        kept.setdefault((one.code, one.sentence), one)
    return tuple(sorted(kept.values(), key=_urgency))


def advice(code: str, sentence: str, hint: str = "") -> Advice:
    """``hint``: the way out, if something more exact is known than the alarm's guide says."""
    alarm = BY_CODE.get(code)
    if alarm is None:
        return Advice("", sentence, hint, "", "")
    return Advice(code, sentence, hint or alarm.guide.recover[0], explained(code), link(code))


def explained(code: str) -> str:
    """The command that says more."""
    return f"headwater explain {code}"


def link(code: str) -> str:
    """The path that has the same as JSON."""
    return f"/alarms/{code}"


def _urgency(one: Advice) -> int:
    alarm = BY_CODE.get(one.code)
    return SEVERITIES.index(alarm.severity) if alarm else 0


def _firing(held: Held, since_s: float) -> FiringAlarm:
    alarm, labels = held.alarm, dict(held.labels)
    return FiringAlarm(
        alarm.code,
        alarm.name,
        alarm.severity,
        since_s,
        labels.get("view", ""),
        labels.get("snapshot", ""),
        labels.get("alert", ""),
        _filled(alarm, labels),
        alarm.guide.means,
        alarm.guide.recover,
        explained(alarm.code),
        link(alarm.code),
    )


def _summary(code: str, labels: Mapping[str, str]) -> str:
    return _filled(BY_CODE[code], labels)


def _filled(alarm: Alarm, labels: Mapping[str, str]) -> str:
    return alarm.summary.format_map(labels)
