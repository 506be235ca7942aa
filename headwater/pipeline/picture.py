"""What the console and the API show, as plain values. Pure, and without row values.

Everything is as of one look that all clients share. A moment ends in ``at_s`` and is in seconds
since 1970, a duration ends in ``_s``, a size in ``_bytes``; LSNs are written as PostgreSQL does.
None stands for what is not known: it is never to be shown as good news. ``State`` says of a part
how it is; only the states of ``cdc.lag.states.GOOD`` are green. As JSON every value has these
names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc.lag.states import State


class Part(StrEnum):
    """The columns of the picture, from left to right."""

    SOURCE = "source"
    CAPTURE = "capture"
    TOPICS = "topics"
    VIEW = "view"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do. ``code`` is that of an alarm, which need not fire yet; "" where no alarm tells of
    it. ``explain`` is the command that says more, ``link`` the path that has it as JSON; both are
    "" without a code."""

    code: str
    sentence: str
    hint: str
    explain: str
    link: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """Between two neighbours of the picture. ``view`` is "" before the topics end, else the view
    whose arrow it is. ``blocked_by`` is "" in every state but ``blocked``."""

    begin: Part
    end: Part
    view: str
    state: State
    records_s: float | None
    """Records that pass in a second; None where that is not known."""
    lag_s: float | None
    """The age of the oldest change that has not passed; 0 without one."""
    lag_records: int | None
    lag_bytes: int | None
    blocked_by: str = ""


@dataclass(frozen=True, slots=True)
class ViewLine:
    """A view in the picture. ``lag_s`` is from the source's commit to the store."""

    view: str
    store: str
    kind: str
    state: State
    lag_s: float | None
    lag_records: int | None
    lag_bytes: int | None
    applied_s: float | None
    """Records that are applied in a second."""
    added_s: float | None
    catch_up_s: float | None
    parked_keys: int | None
    blocked_by: str
    verified_at_s: float | None
    verified_lsn: str | None
    differences: int | None
    """Rows that a background check found to differ; None where none has looked."""
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert on rows. ``of`` is its table or view; ``lag_s`` the age of the oldest commit that it
    has not looked at, or whose message was not delivered; ``waiting`` are messages. ``problem``
    says why there is ``no data``, if that is known."""

    alert: str
    of: str
    state: State
    lag_s: float | None
    lag_records: int | None
    waiting: int | None
    dead_letters: int | None
    delivered_at_s: float | None
    blocked_by: str
    problem: str
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class FiringAlarm:
    """``view``, ``snapshot`` and ``alert`` are "" where the alarm is of the source."""

    code: str
    name: str
    severity: str
    since_s: float
    """Since when its condition holds, in seconds since 1970."""
    view: str
    snapshot: str
    alert: str
    summary: str
    means: str
    recover: tuple[str, ...]
    explain: str
    link: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole picture. ``state`` is the worst of its parts. ``views`` and ``alarms`` have the
    worst first, ``advice`` what to do first. ``problem`` says why there is ``no data``, else it is
    "": then ``measured_at_s`` is when there was some, or None."""

    source: str
    state: State
    measured_at_s: float | None
    problem: str
    wal_lsn: str | None
    progress_lsn: str | None
    slot: str
    topics: int | None
    """How many topics of captured tables Kafka has."""
    arrows: tuple[Arrow, ...]
    views: tuple[ViewLine, ...]
    advice: tuple[Advice, ...]
    alarms: tuple[FiringAlarm, ...]
    row_alerts: tuple[AlertLine, ...] = ()
    """The worst first."""
