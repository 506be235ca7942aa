"""How lag is shown: as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cdc.errors import one_line
from cdc.lag.measure import PartitionLag
from cdc.lag.rates import Rates
from cdc.lag.report import CaptureReport, ViewReport
from cdc.lag.slot_activity import SlotActivity
from cdc.lag.states import GOOD, State
from cdc.lsn import format_lsn
from cdc.plural import plural
from headwater.cli.common.format import age, size
from headwater.lag.alert_lags import AlertReport
from headwater.lag.document import lsn_text
from headwater.lag.verified import Verified
from headwater.lag.watch import Seen, told

_OLD_S: Final = 60.0
"""A transaction that is open for longer is told of."""
_STYLES: Final[Mapping[State, str]] = {
    **dict.fromkeys(GOOD, "green"),
    State.CATCHING_UP: "yellow",
    State.FALLING_BACK: "red",
    State.STALLED: "bold red",
    State.BLOCKED: "bold red",
    State.SOURCE_UNKNOWN: "magenta",
    State.NO_DATA: "magenta",
}


def table(seen: Seen, partitions: bool = False) -> Group:
    """A line for capture and each view, on request one for each partition, too; below, the slot,
    and why views do not follow."""
    grid = Table()
    grid.add_column("", overflow="fold")
    for title in ("seconds", "records", "WAL"):
        grid.add_column(title, justify="right")
    grid.add_column("state")
    report = seen.report
    _add_capture(grid, report.capture, report.lag.progress_lsn is not None)
    grid.add_section()
    for view in report.views:
        _add_view(grid, view)
        if partitions:
            for one, state in zip(view.partitions, view.states, strict=True):
                _add_partition(grid, one, state)
    if seen.alerts:
        grid.add_section()
    for alert in seen.alerts:
        _add_alert(grid, alert, time.time())
    lines = [Text(line, style="dim") for line in _slot_lines(report.capture)]
    for name, found in seen.verified.items():
        wrong = found.reason or found.differing
        lines.append(Text(f"{name}: {proof(found, time.time())}", "red" if wrong else "dim"))
    for fault in told(seen.faults).values():
        since = f", since {at}" if (at := fault.get("at")) else ""
        lines.append(Text(one_line(f"{fault['fault']}{since}", fault["hint"]), style="red"))
    return Group(grid, *lines)


def proof(found: Verified, now_s: float) -> str:
    """The same for people."""
    if found.reason:
        return f"not checked against the source: {found.reason}"
    if found.differing:
        rows = plural(len(found.differing), "row differs", "rows differ")
        return f"{rows} from the source at LSN {format_lsn(found.lsn)}: headwater verify --repair"
    since, lsn = age(now_s - found.checked_s), format_lsn(found.lsn)
    equal = f"{plural(found.keys, 'key')} equal to the source at LSN {lsn}, {since} ago"
    if not found.skipped:
        return equal
    return f"{equal}; {found.skipped:,} not compared: they kept changing, or wait as dead letters"


def _add_capture(grid: Table, capture: CaptureReport, initialised: bool) -> None:
    state = _state(capture.state)
    slot = capture.lag
    if slot.behind_bytes is None:
        again = " --again" if initialised else ""  # Kafka holds what it read
        state.append(f": no slot, run `headwater init{again}`", "red")
    elif not slot.active:
        state.append(": not running", "red")
    elif capture.blocked_by:
        state.append(f": {capture.blocked_by.text}", "red")
    else:
        state.append(_speed(capture.rates, capture.state, lambda speed: size(round(speed))))
    seconds = "-" if capture.lag_s is None else f"{capture.lag_s:,.1f}"
    grid.add_row("capture", seconds, "", size(slot.behind_bytes), state)


def _add_view(grid: Table, view: ViewReport) -> None:
    state = _state(view.state)
    if view.blocked_by:
        words = {"lost": view.blocked_by.text}.get(view.blocked_by.cause, view.blocked_by.cause)
        state.append(f": {words}", "red")
    elif view.state == State.NO_DATA:
        state.append(": not started")
    else:
        state.append(_speed(view.rates, view.state, lambda speed: f"{speed:,.0f}"))
    if view.parked_keys:
        keys = plural(view.parked_keys, "key")
        state.append(f", {keys} parked: headwater dead-letters list", "red")
    lag = f"{view.lag_s:,.1f}", f"{view.behind_records:,}", size(view.behind_bytes)
    grid.add_row(view.view, *lag, state)


def _add_alert(grid: Table, alert: AlertReport, now_s: float) -> None:
    """Of one on rows."""
    state = _state(alert.state)
    if alert.blocked_by:
        state.append(f": {alert.blocked_by}", "red")
    elif alert.state == State.NO_DATA:
        state.append(f": {alert.problem or 'not begun'}")
    if alert.waiting:
        state.append(f", {plural(alert.waiting, 'message waits', 'messages wait')}")
    elif alert.waiting is None and alert.state != State.NO_DATA:
        state.append(", messages that wait: -", "dim")
    if alert.dead_letters:
        letters = plural(alert.dead_letters, "dead letter")
        state.append(f", {letters}: headwater dead-letters list alerts.{alert.alert}", "red")
    if alert.delivered_s is not None:
        state.append(f", delivered {age(max(0.0, now_s - alert.delivered_s))} ago", "dim")
    seconds = "" if alert.lag_s is None else f"{alert.lag_s:,.1f}"
    records = "" if alert.behind_records is None else f"{alert.behind_records:,}"
    grid.add_row(f"alert {alert.alert}", seconds, records, "", state)


def _add_partition(grid: Table, one: PartitionLag, state: State) -> None:
    lag = f"{one.behind_s:,.1f}", f"{one.behind_records:,}", size(one.behind_bytes)
    grid.add_row(f"  {one.topic}-{one.partition}", *lag, _state(state))


def _state(state: State) -> Text:
    return Text(state.value, _STYLES[state])


def _speed(rates: Rates | None, state: State, shown: Callable[[float], str]) -> str:
    """How long it will take, of what is behind."""
    if rates is None or state not in (State.CATCHING_UP, State.FALLING_BACK):
        return ""
    if rates.catch_up_s is None:
        return f", {shown(rates.added)} a second come in, {shown(rates.done)} are done"
    return f", done in {age(rates.catch_up_s)}"


def _slot_lines(capture: CaptureReport) -> Iterator[str]:
    """What the slot holds back, for how long it can, and what holds it back."""
    seen, forecast = capture.lag.activity, capture.forecast
    if seen is None or not seen.exists:
        return
    kept = f"slot keeps {size(seen.retained_bytes)} of WAL, wal_status {seen.wal_status or '-'}"
    if seen.safe_wal_size is not None:
        kept += f", lost after {size(seen.safe_wal_size)} more{_at_this_rate(forecast.slot_loss_s)}"
    yield kept
    if seen.volume_free_bytes is not None:
        full = _at_this_rate(forecast.disk_full_s, ", full")
        yield f"the source's WAL volume has {size(seen.volume_free_bytes)} free{full}"
    yield (
        f"sent {lsn_text(seen.sent) or '-'}, confirmed {lsn_text(seen.confirmed) or '-'}, "
        f"restart {lsn_text(seen.restart) or '-'}, walsender {_walsender(seen)}"
    )
    if not seen.sees_others:
        yield (
            "what was sent and the oldest transaction are hidden from this role: they need "
            "pg_read_all_stats"
        )
    if seen.spilled_bytes:
        yield (
            f"spilled {size(seen.spilled_bytes)} of {seen.spilled_transactions:,} transactions: "
            "raise logical_decoding_work_mem if it grows"
        )
    if seen.oldest_transaction_s and seen.oldest_transaction_s > _OLD_S:
        yield f"a transaction is open for {age(seen.oldest_transaction_s)}: WAL is kept for it"


def _walsender(seen: SlotActivity) -> str:
    """What it waits for; it waits for nothing while it decodes."""
    return seen.wait_event or ("busy" if seen.pid is not None else "none")


def _at_this_rate(seconds: float | None, what: str = ",") -> str:
    return "" if seconds is None else f"{what} in {age(seconds)} at this rate"
