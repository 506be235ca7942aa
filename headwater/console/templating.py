"""Templates of pages. Everything that is put into one is escaped."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from cdc.errors import sentence
from cdc.plural import plural
from headwater.api.access.principal import Principal, Role
from headwater.console import words
from headwater.console.assets import asset
from headwater.pipeline.work import Job

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("headwater.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "advice_tone": words.advice_tone,
    "tone": words.tone,
    "level": words.level_tone,
    "number": words.number,
    "rate": words.rate,
    "seconds": words.seconds,
    "sized": words.sized,
    "sized_rate": words.sized_rate,
    "percent": words.percent,
    "clock": words.clock,
    "date": words.date,
    "moment": words.moment,
    "since": words.since,
    "code": words.code,
    "sentence": sentence,
    "breakable": words.breakable,
}
_ENVIRONMENT.globals |= {"asset": asset, "plural": plural}


class Frame(NamedTuple):
    """What stands around every page. ``path`` is the page's own, with its query: while the page is
    shown it is asked for again every few seconds, if ``is_refreshed``. ``is_part``: only what
    changes is wanted."""

    source: str
    section: str
    path: str
    is_refreshed: bool
    who: Principal | None
    has_login: bool
    theme: str
    now_s: float
    alarms: int
    parked_keys: int
    is_part: bool = False
    job: Job | None = None
    """What somebody has begun here."""

    @property
    def may_act(self) -> bool:
        return self.who is not None and self.who.role == Role.OPERATOR


def page(name: str, frame: Frame, **values: Any) -> str:
    """A page as HTML."""
    outer = "part.html" if frame.is_part else "layout.html"
    template = _ENVIRONMENT.get_template(f"{name}.html")
    return str(template.render(frame=frame, outer=outer, now_s=frame.now_s, **values))
