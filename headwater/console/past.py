"""Charts of what the server remembers: an hour and a day."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from headwater.api.pipeline.figures import refuse_unknown
from headwater.api.shared import Shared
from headwater.console import words
from headwater.console.charts import Chart, late_bars, line_chart, spark, state_strip
from headwater.console.context import Asked
from headwater.pipeline.history import CAPTURE, COARSE_S, FINE_S, SPANS
from headwater.pipeline.work import History, Series

_SPANS: Final = (("60 minutes", FINE_S), ("24 hours", COARSE_S))
_SHOWN: Final = 2
"""So many views have a chart in the overview, the worst."""
_SPARKS: Final = 100
_POINTS: Final = 144
"""Of a chart: more are not to be told apart."""


class _Wanted(NamedTuple):
    """``of`` is a view, or capture."""

    title: str
    of: str
    figure: str


Values = Mapping[tuple[str, str], Sequence[float | str | None]]


async def of_pipeline(asked: Asked) -> Any:
    views = [one.view for one in asked.shared.figures.picture.views[:_SHOWN]]
    wanted = [_Wanted("Source to Kafka", CAPTURE, "lag_s")]
    wanted.append(_Wanted("Records to Kafka", CAPTURE, "records_s"))
    wanted += [_Wanted(f"Lag of {view}", view, "lag_s") for view in views]
    return asked.page("charts", charts=_charts(asked, views, wanted))


async def of_view(asked: Asked) -> Any:
    view = asked.request.path_params["view"]
    refuse_unknown(asked.shared.config, view)
    wanted = [
        _Wanted("Lag", view, "lag_s"),
        _Wanted("Applied", view, "records_s"),
        _Wanted("State", view, "state"),
    ]
    charts = _charts(asked, [view], wanted)
    fresh = asked.shared.memory.freshness(view)
    if charts and fresh.shares:
        title = f"How late, {fresh.hours:.0f} hours ({words.percent(fresh.measured)} measured)"
        charts.append(late_bars(title, fresh.lags_s, fresh.shares))
    return asked.page("charts", charts=charts)


class Sparks:
    """The lag of the last hour, by view, as a path: drawn once a step for all clients. ``now`` is
    in seconds since 1970."""

    def __init__(self, shared: Shared, now: Callable[[], float] = time.time) -> None:
        self._shared, self._now = shared, now
        self._step: int | None = None
        self._paths: Mapping[str, str] = {}

    def paths(self) -> Mapping[str, str]:
        """Of the worst views."""
        step = int(self._now() // FINE_S)
        if step != self._step:
            self._step, self._paths = step, self._drawn()
        return self._paths

    def _drawn(self) -> dict[str, str]:
        views = [one.view for one in self._shared.figures.picture.views[:_SPARKS]]
        found = self._shared.memory.history(FINE_S, views, "lag_s")
        return {
            one.view: spark(_thinned(one.values, one.name, _each(len(one.values))))
            for one in found.series
            if one.view != CAPTURE
        }


def sparks(asked: Asked) -> Mapping[str, str]:
    """Those of this application."""
    found: Sparks = asked.request.app.state.sparks
    return found.paths()


def _whole(past: History) -> History:
    """With the steps in which the server did not run: what was not measured has to be seen."""
    if not past.at_s:
        return past
    step_s, last = past.step_s, round(past.at_s[-1] / past.step_s)
    size = SPANS[int(step_s)]
    each = _each(size)
    first = -(-(last - size + 1) // each) * each  # so that points stay what they are
    numbers = range(first, last + 1)
    places = {round(at / step_s): i for i, at in enumerate(past.at_s)}
    series = []
    for one in past.series:
        values = [one.values[places[n]] if n in places else None for n in numbers]
        series.append(replace(one, values=tuple(_thinned(values, one.name, each))))
    return History(step_s * each, tuple(n * step_s for n in numbers[::each]), tuple(series))


def _charts(asked: Asked, views: Sequence[str], wanted: Sequence[_Wanted]) -> list[Chart]:
    """Of each figure one chart for each span, side by side; none before the first step is over."""
    pasts = [
        (span, _whole(asked.shared.memory.history(length_s, views))) for span, length_s in _SPANS
    ]
    return [
        _chart(f"{one.title}, {span}", past.at_s, _values(past.series)[one.figure, one.of], one)
        for one in wanted
        for span, past in pasts
        if past.at_s
    ]


def _chart(
    title: str, at_s: Sequence[float], values: Sequence[float | str | None], wanted: _Wanted
) -> Chart:
    if wanted.figure == "state":
        return state_strip(title, at_s, values)
    is_time = wanted.figure == "lag_s"
    return line_chart(title, at_s, values, words.seconds if is_time else words.rate, is_time)


def _values(series: Sequence[Series]) -> Values:
    return {(one.name, one.view): one.values for one in series}


def _each(points: int) -> int:
    """How many steps are one point of a chart."""
    return -(-points // _POINTS) or 1


def _thinned(
    values: Sequence[float | str | None], figure: str, each: int
) -> list[float | str | None]:
    """Of each few steps the greatest lag, the worst state, the mean of rates."""
    return [_one(values[i : i + each], figure) for i in range(0, len(values), each)]


def _one(values: Sequence[float | str | None], figure: str) -> float | str | None:
    states = [one for one in values if isinstance(one, str)]
    if states:
        return min(states, key=words.rank)
    known = [one for one in values if isinstance(one, (int, float))]
    if not known:
        return None
    return sum(known) / len(known) if figure == "records_s" else max(known)
