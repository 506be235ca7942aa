"""Charts of the past: what an SVG shows, and the same figures as a table. Pure.

What was not measured is a gap with a shade of its own, never a line at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from cdc.lag.states import State
from headwater.console import words

WIDTH: Final = 640
HEIGHT: Final = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 8, 22
STRIP_HEIGHT: Final = 62
_TICKS: Final = 4
_NICE: Final = (1, 2, 5, 10)
_NICE_S: Final = (
    1, 2, 4, 10, 20, 60, 120, 240, 600, 1_200, 3_600, 7_200, 14_400, 43_200, 86_400, 172_800,
)  # fmt: skip
"""Seconds whose half is a round figure, too."""
_SHARES: Final = {
    State.IDLE: 0.12, State.FRESH: 0.25, State.CATCHING_UP: 0.5, State.FALLING_BACK: 0.7,
    State.STALLED: 0.85, State.BLOCKED: 1.0, State.SOURCE_UNKNOWN: 0.4, State.NO_DATA: 0.4,
}  # fmt: skip
Value = float | str | None
_T = TypeVar("_T")


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    tone: str = ""
    said: str = ""


class Chart(NamedTuple):
    """``traces`` are paths of an SVG, one for each stretch that was measured. ``rows`` are the same
    figures, the newest first: a moment and a value."""

    title: str
    said: str
    height: int
    traces: tuple[str, ...]
    areas: tuple[str, ...]
    boxes: tuple[Box, ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]
    rows: tuple[tuple[str, str], ...]


def line_chart(
    title: str,
    at_s: Sequence[float],
    values: Sequence[Value],
    shown: Callable[[float], object],
    is_time: bool = False,
) -> Chart:
    """Of figures that are not negative."""
    numbers = [one if isinstance(one, (int, float)) else None for one in values]
    known = [one for one in numbers if one is not None]
    top = _top(max(known, default=0.0), is_time)
    span = _Span(at_s)
    low = HEIGHT - _BOTTOM

    def y(value: float) -> float:
        return low - (low - _TOP) * min(value / top, 1.0)

    traces, areas = [], []
    for stretch in _stretches(numbers):
        points = [(span.x(at_s[i]), y(numbers[i] or 0.0)) for i in stretch]
        if len(points) == 1:
            points.append((points[0][0] + span.step, points[0][1]))
        line = "L".join(f"{x:.1f} {height:.1f}" for x, height in points)
        traces.append(f"M{line}")
        areas.append(f"M{points[0][0]:.1f} {low}L{line}L{points[-1][0]:.1f} {low}Z")
    gaps = [
        Box(span.x(at_s[first]), _TOP, span.width(at_s[first], at_s[last]), low - _TOP, "gap")
        for first, last in _gaps(numbers)
    ]
    ticks = tuple((round(y(top * i / 2), 1), str(shown(top * i / 2))) for i in range(3))
    return Chart(
        title, _said(at_s, numbers, shown, is_time), HEIGHT,
        tuple(traces), tuple(areas), tuple(gaps), ticks, span.ticks(),
        _rows(at_s, [None if v is None else str(shown(v)) for v in numbers]),
    )  # fmt: skip


def state_strip(title: str, at_s: Sequence[float], values: Sequence[Value]) -> Chart:
    """States over time: the higher, the worse."""
    span, low = _Span(at_s), STRIP_HEIGHT - _BOTTOM
    boxes, begun = [], 0
    for value, run in groupby(values):
        last = begun + len(list(run)) - 1
        x, width = span.x(at_s[begun]), span.width(at_s[begun], at_s[last])
        if value is None:
            boxes.append(Box(x, _TOP, width, low - _TOP, "gap"))
        else:
            state = State(str(value))
            height = (low - _TOP) * _SHARES[state]
            said = f"{state.value} from {_clock(at_s[begun])}"
            boxes.append(Box(x, low - height, width, height, words.tone(state), said))
        begun = last + 1
    worst = min((State(str(one)) for one in values if one), key=words.rank, default=None)
    said = "Nothing was measured."
    if worst is not None:
        newest, at = next((one, at) for one, at in _backwards(at_s, values) if one)
        said = f"{span.point(at)}: at worst {newest}. The worst of all: {worst.value}."
    ticks = ((_TOP + 4.0, "worse"), (low + 0.0, "well"))
    texts = [str(one) if one else None for one in values]
    return Chart(
        title, said, STRIP_HEIGHT, (), (), tuple(boxes), ticks, span.ticks(), _rows(at_s, texts)
    )


def late_bars(title: str, lags_s: Sequence[float], shares: Sequence[float]) -> Chart:
    """For which share of the time a view was later than so much."""
    low, step = HEIGHT - _BOTTOM, (WIDTH - _LEFT - _RIGHT) / max(len(lags_s), 1)
    boxes, ticks = [], []
    for i, (lag_s, share) in enumerate(zip(lags_s, shares, strict=True)):
        height = (low - _TOP) * share
        said = f"later than {words.seconds(lag_s)}: {words.percent(share)} of the time"
        x = round(_LEFT + step * i, 1)
        boxes.append(Box(x + 2, low - height, round(step - 4, 1), height, "bar", said))
        if i % 2 == 0:
            ticks.append((x, str(words.seconds(lag_s))))
    rows = tuple(
        (f"later than {words.seconds(lag_s)}", str(words.percent(share)))
        for lag_s, share in zip(lags_s, shares, strict=True)
    )
    late = next((share for lag_s, share in zip(lags_s, shares, strict=True) if lag_s >= 10), 0.0)
    said = f"Later than 10 s for {words.percent(late)} of the time."
    y_ticks = ((_TOP + 0.0, "100 %"), ((_TOP + low) / 2, "50 %"), (low + 0.0, "0 %"))
    return Chart(title, said, HEIGHT, (), (), tuple(boxes), y_ticks, tuple(ticks), rows)


def spark(values: Sequence[Value], width: float = 120, height: float = 20) -> str:
    """A path without axes; "" of less than two figures."""
    numbers = [one if isinstance(one, (int, float)) else None for one in values]
    top = max((one for one in numbers if one is not None), default=0.0) or 1.0
    step = width / max(len(numbers) - 1, 1)
    parts = []
    for stretch in _stretches(numbers):
        line = (
            f"{i * step:.1f} {height - 1 - (height - 2) * (numbers[i] or 0.0) / top:.1f}"
            for i in stretch
        )
        parts.append("M" + "L".join(line))
    return "".join(parts) if len(numbers) > 1 else ""


class _Span:
    """Moments on the x axis."""

    def __init__(self, at_s: Sequence[float]) -> None:
        self._first = at_s[0] if at_s else 0.0
        self._step_s = at_s[1] - at_s[0] if len(at_s) > 1 else 1.0
        self._length_s = (at_s[-1] - self._first if at_s else 0.0) + self._step_s
        self.step = (WIDTH - _LEFT - _RIGHT) * self._step_s / self._length_s

    def x(self, at_s: float) -> float:
        share = (at_s - self._first) / self._length_s
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * share, 1)

    def width(self, first_s: float, last_s: float) -> float:
        return round(self.x(last_s) - self.x(first_s) + self.step, 1)

    def point(self, at_s: float) -> str:
        """The time that the point of this moment stands for."""
        clocks = _clock(at_s), _clock(at_s + self._step_s)
        first, last = clocks if self._step_s < 60 else (one[:5] for one in clocks)
        return f"{first} to {last} UTC"

    def ticks(self) -> tuple[tuple[float, str], ...]:
        moments = (self._first + self._length_s * i / _TICKS for i in range(_TICKS))
        return tuple((self.x(at_s), _clock(at_s)[:5]) for at_s in moments)


def _stretches(numbers: Sequence[float | None]) -> Iterator[list[int]]:
    """Indexes of figures that stand side by side."""
    places = range(len(numbers))
    for is_known, run in groupby(places, key=lambda i: numbers[i] is not None):
        if is_known:
            yield list(run)


def _gaps(numbers: Sequence[float | None]) -> Iterator[tuple[int, int]]:
    for is_gap, run in groupby(range(len(numbers)), key=lambda i: numbers[i] is None):
        places = list(run)
        if is_gap:
            yield places[0], places[-1]


def _top(most: float, is_time: bool) -> float:
    if is_time:
        return float(next((one for one in _NICE_S if one >= most), math.ceil(most)))
    if most <= 1:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(most))
    return next(one * unit for one in _NICE if one * unit >= most)


def _said(
    at_s: Sequence[float],
    numbers: Sequence[float | None],
    shown: Callable[[float], object],
    is_time: bool,
) -> str:
    """A point stands for a time: of lags for the greatest one, of rates for their mean."""
    known = [(value, at) for value, at in _backwards(at_s, numbers) if value is not None]
    if not known:
        return "Nothing was measured."
    (newest, at), (most, then) = known[0], max(known)
    how = "at most" if is_time else "on average"
    newest_point = f"{_Span(at_s).point(at)}: {how} {shown(newest)}"
    return f"{newest_point}. Greatest {shown(most)}, at {_clock(then)[:5]} UTC."


def _backwards(at_s: Sequence[float], values: Sequence[_T]) -> Iterator[tuple[_T, float]]:
    """The newest first."""
    return zip(reversed(values), reversed(at_s), strict=True)


def _rows(at_s: Sequence[float], texts: Sequence[str | None]) -> tuple[tuple[str, str], ...]:
    """Runs of equal figures are one row, with the moment that they begin."""
    rows, before = [], ""
    for at, text in zip(at_s, texts, strict=True):
        text = text or "not measured"
        if text != before:
            rows.append((_clock(at), text))
            before = text
    return tuple(reversed(rows))


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")
