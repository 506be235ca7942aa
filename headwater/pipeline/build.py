"""The picture, from a look at lag and the alarms that fire. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cdc.alarms.judge import Held
from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.lag.report import CaptureReport, ViewReport
from cdc.lag.states import State
from cdc.lsn import format_lsn
from cdc.plural import plural
from headwater.lag.alert_lags import AlertReport
from headwater.lag.document import lsn_text
from headwater.lag.watch import Seen
from headwater.pipeline import advice
from headwater.pipeline.picture import Advice, AlertLine, Arrow, Part, Pipeline, ViewLine

WORST: Final = (
    State.BLOCKED,
    State.STALLED,
    State.NO_DATA,
    State.SOURCE_UNKNOWN,
    State.FALLING_BACK,
    State.CATCHING_UP,
    State.FRESH,
    State.IDLE,
)
"""What is not known stands above what is known to go on."""


def worst(states: Iterable[State]) -> State:
    """The worst of some; ``no data`` of none."""
    return min(states, key=WORST.index, default=State.NO_DATA)


def picture(
    config: Config,
    seen: Seen,
    at_s: float,
    held: Mapping[Held, float],
    records_s: float | None = None,
) -> Pipeline:
    """As of a look that ended at ``at_s``. ``records_s`` is how many records capture publishes in a
    second, as far as that is known."""
    lag, capture = seen.report.lag, seen.report.capture
    reports = {one.view: one for one in seen.report.views}
    lines = [
        _line(config, view, seen, reports.get(view), seen.unmeasured.get(view))
        for view in config.views
    ]
    arrows = [*_of_capture(capture, records_s)]
    for line in lines:
        arrows += _of_view(line, reports.get(line.view))
    alarms = advice.firing(held)
    source = config.source.name
    alerts = [_alert(one, config.alerts.lag_s) for one in seen.alerts]
    alerts.sort(key=lambda one: (WORST.index(one.state), one.alert))
    lines.sort(key=lambda one: (WORST.index(one.state), -(one.lag_s or 0.0), one.view))
    of_capture = tuple(advice.of_capture(source, capture))
    of_lines = [one for line in lines for one in line.advice]
    told = [*of_capture, *of_lines, *(one for line in alerts for one in line.advice)]
    codes = {(one.code, line.view) for line in lines for one in line.advice}
    codes |= {(one.code, line.alert) for line in alerts for one in line.advice}
    codes |= {(one.code, "") for one in of_capture}
    more = advice.of_alarms(one for one in alarms if (one.code, one.view or one.alert) not in codes)
    return Pipeline(
        source=source,
        state=worst((capture.state, *(one.state for one in lines), *(one.state for one in alerts))),
        measured_at_s=at_s,
        problem="",
        wal_lsn=format_lsn(lag.wal_lsn) if capture.lag.activity else None,
        progress_lsn=lsn_text(lag.progress_lsn),
        slot=capture.lag.slot,
        topics=len(lag.marked_offsets) if lag.marked_s is not None else None,
        arrows=tuple(arrows),
        views=tuple(lines),
        advice=advice.once([*told, *more]),
        alarms=alarms,
        row_alerts=tuple(alerts),
    )


def _alert(report: AlertReport, limit_s: float) -> AlertLine:
    told = []
    if report.blocked_by:
        told.append(advice.advice("HW017", f"alert {report.alert}: {report.blocked_by}"))
    elif report.dead_letters:
        letters = plural(report.dead_letters, "message waits", "messages wait")
        hint = f"run `headwater dead-letters list alerts.{report.alert}`, then retry or discard"
        sentence = f"alert {report.alert}: {letters} as dead letters"
        told.append(advice.advice("HW018", sentence, hint))
    elif report.undelivered_s is not None and report.undelivered_s > limit_s:
        sentence = f"alert {report.alert}: messages are not delivered"
        told.append(advice.advice("HW018", sentence))
    return AlertLine(
        alert=report.alert,
        of=report.of,
        state=report.state,
        lag_s=report.lag_s,
        lag_records=report.behind_records,
        waiting=report.waiting,
        dead_letters=report.dead_letters,
        delivered_at_s=report.delivered_s,
        blocked_by=report.blocked_by,
        problem=report.problem,
        advice=tuple(told),
    )


def no_data(
    config: Config, problem: str, last_s: float | None, held: Mapping[Held, float]
) -> Pipeline:
    """While nothing is known: ``problem`` says why, ``last_s`` when something was."""
    unknown = State.NO_DATA, None, None, None, None
    arrows = [
        Arrow(Part.SOURCE, Part.CAPTURE, "", *unknown),
        Arrow(Part.CAPTURE, Part.TOPICS, "", *unknown),
    ]
    lines = [_unknown(config, view) for view in config.views]
    for line in lines:
        arrows += _of_view(line, None)
    alarms = advice.firing(held)
    first = advice.advice("", problem)
    return Pipeline(
        config.source.name, State.NO_DATA, last_s, problem, None, None, config.source.slot_name,
        None, tuple(arrows), tuple(lines), (first, *advice.once(advice.of_alarms(alarms))), alarms,
        tuple(
            AlertLine(name, alert.subject, State.NO_DATA, *(None,) * 5, "", "", ())
            for name, alert in config.alerts.rows.items()
        ),
    )  # fmt: skip


def _of_capture(capture: CaptureReport, records_s: float | None) -> Iterator[Arrow]:
    """What is sent and not confirmed is capture's work; what is not sent is on the first arrow."""
    seen, state = capture.lag.activity, capture.state
    blocked = capture.blocked_by.text if capture.blocked_by else ""
    unsent = unpublished = None
    if seen is not None:
        unsent = None if seen.sent is None else max(0, seen.wal_end - seen.sent)
        unpublished = seen.unconfirmed_bytes
        if seen.sent is not None and seen.confirmed is not None:
            unpublished = max(0, seen.sent - seen.confirmed)
    sent_s = 0.0 if unsent == 0 else capture.lag_s
    yield Arrow(Part.SOURCE, Part.CAPTURE, "", state, records_s, sent_s, None, unsent, blocked)
    yield Arrow(
        Part.CAPTURE, Part.TOPICS, "", state, records_s, capture.lag_s, None, unpublished, blocked
    )


def _of_view(line: ViewLine, report: ViewReport | None) -> Iterator[Arrow]:
    own = line.view, line.state
    known = report is not None and line.state != State.NO_DATA
    in_kafka_s = report.in_kafka_s if report is not None and known else None
    yield Arrow(
        Part.TOPICS, Part.VIEW, *own, line.applied_s, in_kafka_s, line.lag_records,
        line.lag_bytes, line.blocked_by,
    )  # fmt: skip
    yield Arrow(
        Part.VIEW, Part.STORE, *own, line.applied_s, line.lag_s, None, None, line.blocked_by
    )


def _line(
    config: Config,
    view: str,
    seen: Seen,
    report: ViewReport | None,
    error: HeadwaterError | None,
) -> ViewLine:
    if report is None:
        found = [advice.advice("", error.message, error.hint)] if error else []
        return _unknown(config, view, tuple(found))
    verified, source = seen.verified.get(view), config.source.name
    told = tuple(
        advice.of_view(source, report, seen.faults.get(view), verified, config.alerts.lag_s)
    )
    if report.state == State.NO_DATA:
        return _unknown(config, view, told)
    rates, store = report.rates, config.views[view].store
    return ViewLine(
        view=view,
        store=store,
        kind=config.stores[store].kind,
        state=report.state,
        lag_s=report.lag_s,
        lag_records=report.behind_records,
        lag_bytes=report.behind_bytes,
        applied_s=rates.done if rates else None,
        added_s=rates.added if rates else None,
        catch_up_s=rates.catch_up_s if rates else None,
        parked_keys=report.parked_keys,
        blocked_by=report.blocked_by.text if report.blocked_by else "",
        verified_at_s=verified.equal_s if verified else None,
        verified_lsn=lsn_text(verified.equal_lsn) if verified else None,
        differences=len(verified.differing) if verified and verified.lsn else None,
        advice=told,
    )


def _unknown(config: Config, view: str, told: tuple[Advice, ...] = ()) -> ViewLine:
    store = config.views[view].store
    return ViewLine(
        view, store, config.stores[store].kind, State.NO_DATA, *(None,) * 7, "", *(None,) * 3, told
    )
