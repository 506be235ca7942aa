"""How figures, moments and states are written on pages. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

from cdc.alarms.catalog import BY_CODE
from cdc.lag.states import GOOD, State
from headwater.cli.common.format import age, size
from headwater.pipeline.picture import Advice

UNKNOWN: Final = Markup('<span class="soft" title="not known">–</span>')
_TONES: Final = {
    **dict.fromkeys(GOOD, "good"),
    State.CATCHING_UP: "warn",
    State.FALLING_BACK: "bad",
    State.STALLED: "bad",
    State.BLOCKED: "bad",
}
WORST_FIRST: Final = (
    State.BLOCKED, State.STALLED, State.NO_DATA, State.SOURCE_UNKNOWN, State.FALLING_BACK,
    State.CATCHING_UP, State.FRESH, State.IDLE,
)  # fmt: skip
_YEAR_S: Final = 31_536_000.0
_LEVELS: Final = {
    "critical": "bad",
    "error": "bad",
    "failed": "bad",
    "warning": "warn",
    "ok": "good",
}


def tone(state: State | str) -> str:
    """good, warn, bad or unknown: only what is known to be good is good."""
    return _TONES.get(State(state), "unknown")


def level_tone(level: str) -> str:
    """The same of a severity, or of how a check, a job or a snapshot ended."""
    return _LEVELS.get(level, "")


def advice_tone(one: Advice) -> str:
    """warn where only a warning tells of it, else bad."""
    alarm = BY_CODE.get(one.code)
    return level_tone(alarm.severity) if alarm else "bad"


def rank(state: State | str) -> int:
    """The worst has 0."""
    return WORST_FIRST.index(State(state))


def number(value: float | None) -> str | Markup:
    """``1,234``; with one decimal below 10."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def rate(value: float | None) -> str | Markup:
    """``1,234/s``."""
    return UNKNOWN if value is None else f"{number(value)}/s"


def seconds(value: float | None) -> str | Markup:
    """``0.4 s``, ``12 s``, ``7 min``, ``3 h``."""
    if value is None:
        return UNKNOWN
    if value > _YEAR_S:
        return "over a year"
    return f"{value:.1f} s" if 0 < value < 10 else age(value)


def sized(value: float | None) -> str | Markup:
    """``12.3 MB``."""
    return UNKNOWN if value is None else size(round(value))


def sized_rate(value: float | None) -> str | Markup:
    """``12.3 MB/s``."""
    return UNKNOWN if value is None else f"{size(round(value))}/s"


def percent(share: float | None) -> str | Markup:
    """``42 %``; 100 % is all of it and nothing less."""
    if share is None:
        return UNKNOWN
    return "100 %" if share >= 1 else f"{min(share * 100, 99.9):.1f} %"


def clock(at_s: float | None) -> Markup:
    """``12:03:11`` of the day, in UTC, with the date for machines and for who points at it."""
    return _moment(at_s, "%H:%M:%S")


def date(at_s: float | None) -> Markup:
    """``2026-11-28 12:03:11``, in UTC."""
    return _moment(at_s, "%Y-%m-%d %H:%M:%S")


def moment(text: str | None) -> Markup:
    """The same of a moment in ISO 8601."""
    return date(datetime.fromisoformat(text).timestamp() if text else None)


def since(at_s: float | None, now_s: float) -> str | Markup:
    """``7 min ago``."""
    return UNKNOWN if at_s is None else f"{age(now_s - at_s)} ago"


def _moment(at_s: float | None, form: str) -> Markup:
    if at_s is None:
        return UNKNOWN
    at = datetime.fromtimestamp(at_s, UTC)
    whole = at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup(f'<time datetime="{whole}" title="{whole}">{at.strftime(form)}</time>')


def code(text: str) -> Markup:
    """Markdown's backquotes as code, all else escaped."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def breakable(name: str) -> Markup:
    """A name that may be broken behind what joins its words."""
    return Markup(re.sub(r"([_.-])", r"\1<wbr>", str(escape(name))))
