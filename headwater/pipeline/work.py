"""What people have the server do, and what it remembers of the past, as plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """An action of somebody, in the background. ``of`` is the view, or the id of the snapshot.
    ``steps`` are lines for people, the newest last; ``expected`` is 0 where nobody knows how many
    rows there are. ``result`` is what the command prints as JSON, None before its end; ``detail``
    and ``hint`` say why it failed."""

    id: str
    action: str
    of: str
    who: str
    status: Status
    begun_at_s: float
    ended_at_s: float | None
    steps: tuple[str, ...]
    rows: int
    expected: int
    result: dict[str, Any] | None
    detail: str
    hint: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who did what when, and what came of it: ``outcome`` is begun, done, failed or refused.
    ``arguments`` are those of the action without keys and values of rows; ``job`` is "" of what was
    refused."""

    at_s: float
    who: str
    role: str
    address: str
    action: str
    of: str
    arguments: dict[str, Any]
    outcome: str
    job: str
    detail: str


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over time: ``values`` belong to ``History.at_s``, None where nothing was measured.
    ``view`` is "" of capture. ``name`` is lag_s, records_s, lag_records or state."""

    name: str
    view: str
    values: tuple[float | str | None, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The past as the server has seen it, each ``step_s``; of a coarse step the worst state and the
    greatest lag, and the mean of rates."""

    step_s: float
    at_s: tuple[float, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Freshness:
    """How often a view was late: in ``shares[i]`` of the time that was measured its lag was more
    than ``lags_s[i]``. ``measured`` is how much of the last ``hours`` that is, from 0 to 1."""

    view: str
    hours: float
    measured: float
    lags_s: tuple[float, ...]
    shares: tuple[float, ...]
