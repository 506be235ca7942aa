"""Charts of what the server remembers: an hour and a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headwater.api.pipeline.figures import refuse_unknown
from headwater.console import words
from headwater.console.charts import Chart, late_bars, line_chart, spark, state_strip
from headwater.console.context import Asked
from headwater.pipeline.history import CAPTURE, COARSE_S, FINE_S, SPANS
from headwater.pipeline.work import History, Series

_SPANS: Final = (("Last 60 minutes", FINE_S), ("Last 24 hours", COARSE_S))
_SHOWN: Final = 3
"""So many views have a chart in the overview, the worst."""
_SPARKS: Final = 100
Values = Mapping[tuple[str, str], Sequence[float | str | None]]


async def of_pipeline(asked: Asked) -> Any:
    views = [one.view for one in asked.shared.figures.picture.views[:_SHOWN]]
    return asked.page(
        "charts",
        sets=[
            (title, _pipeline_charts(_whole(asked.shared.memory.history(length_s, views)), views))
            for title, length_s in _SPANS
        ],
    )


async def of_view(asked: Asked) -> Any:
    view = asked.request.path_params["view"]
    refuse_unknown(asked.shared.config, view)
    memory = asked.shared.memory
    sets = [
        (title, _view_charts(_whole(memory.history(length_s, [view])), view))
        for title, length_s in _SPANS
    ]
    fresh = memory.freshness(view)
    if fresh.shares:
        title = f"How late, {fresh.hours:.0f} hours ({words.percent(fresh.measured)} measured)"
        sets[-1][1].append(late_bars(title, fresh.lags_s, fresh.shares))
    return asked.page("charts", sets=sets)


def sparks(asked: Asked) -> dict[str, str]:
    """The lag of the last hour, by view, as a path."""
    views = [one.view for one in asked.shared.figures.picture.views[:_SPARKS]]
    found = asked.shared.memory.history(FINE_S, views)
    return {
        one.view: spark(_thinned(one.values))
        for one in found.series
        if one.name == "lag_s" and one.view != CAPTURE
    }


def _whole(past: History) -> History:
    """With the steps in which the server did not run: what was not measured has to be seen."""
    if not past.at_s:
        return past
    step_s, last = past.step_s, round(past.at_s[-1] / past.step_s)
    numbers = range(last - SPANS[int(step_s)] + 1, last + 1)
    places = {round(at / step_s): i for i, at in enumerate(past.at_s)}
    series = (
        replace(one, values=tuple(one.values[places[n]] if n in places else None for n in numbers))
        for one in past.series
    )
    return History(step_s, tuple(n * step_s for n in numbers), tuple(series))


def _pipeline_charts(past: History, views: Sequence[str]) -> list[Chart]:
    if not past.at_s:
        return []
    values = _values(past.series)
    found = [
        line_chart("Source to Kafka", past.at_s, values["lag_s", CAPTURE], words.seconds, True),
        line_chart("Records to Kafka", past.at_s, values["records_s", CAPTURE], words.rate),
    ]
    for view in views:
        title = f"Lag of {view}"
        found.append(line_chart(title, past.at_s, values["lag_s", view], words.seconds, True))
    return found


def _view_charts(past: History, view: str) -> list[Chart]:
    if not past.at_s:
        return []
    values = _values(past.series)
    return [
        line_chart("Lag", past.at_s, values["lag_s", view], words.seconds, True),
        line_chart("Applied", past.at_s, values["records_s", view], words.rate),
        state_strip("State", past.at_s, values["state", view]),
    ]


def _values(series: Sequence[Series]) -> Values:
    return {(one.name, one.view): one.values for one in series}


def _thinned(values: Sequence[float | str | None], most: int = 120) -> list[float | str | None]:
    """The greatest of each few."""
    each = -(-len(values) // most) or 1
    thin: list[float | str | None] = []
    for begun in range(0, len(values), each):
        known = [one for one in values[begun : begun + each] if isinstance(one, (int, float))]
        thin.append(max(known, default=None))
    return thin
