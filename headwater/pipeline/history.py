"""The past of a pipeline, as far as memory of a fixed size holds it. Pure.

Time is cut into steps; each figure has one value a step in a ring: the last hour in steps of five
seconds, the last day in steps of five minutes. A step where nothing was measured has no value. How
long a view was how late is counted in classes of lag, so that a day's distribution is of every look
and not of a few steps.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cdc.lag.states import State
from headwater.pipeline.build import WORST, worst
from headwater.pipeline.picture import Pipeline
from headwater.pipeline.work import Freshness, History, Series

FINE_S: Final = 5
COARSE_S: Final = 300
SPANS: Final = {FINE_S: 720, COARSE_S: 288}
"""How many steps are remembered, by their length."""
LAGS_S: Final = (
    *(0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
    *(1_800.0, 3_600.0, 7_200.0, 21_600.0),
)
"""Classes of lag: the first has what is not late at all, the last what is later than all."""
CAPTURE: Final = ""
_FIGURES: Final = ("lag_s", "records_s", "lag_records")
_LONGEST_S: Final = 15.0
"""A look stands for the time since the last one, up to so much."""
_NONE: Final = math.nan


class Figures(NamedTuple):
    """Of capture, or of a view, at one moment or over a step; None where nothing was measured."""

    state: State
    lag_s: float | None
    records_s: float | None
    lag_records: float | None


class Step(NamedTuple):
    """A step that is over, or as far as it has come. ``late_s`` has for each view the seconds in
    each class of lag; ``looks`` says how many the means of rates are of."""

    length_s: int
    number: int
    figures: Mapping[str, Figures]
    late_s: Mapping[str, Sequence[float]]
    looks: int = 1

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "figures": {name: [one.state.value, *one[1:]] for name, one in self.figures.items()},
            "late_s": {view: list(seconds) for view, seconds in self.late_s.items()},
            "looks": self.looks,
        }

    @classmethod
    def parsed(cls, length_s: int, number: int, document: Mapping[str, Any]) -> Step:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what is none."""
        figures = {
            name: Figures(State(state), *map(_number, numbers))
            for name, (state, *numbers) in document["figures"].items()
        }
        late_s = {view: list(map(float, own)) for view, own in document["late_s"].items()}
        if any(len(own) != len(LAGS_S) + 1 for own in late_s.values()):
            raise ValueError("other classes of lag")
        return cls(length_s, number, figures, late_s, int(document.get("looks", 1)))


class Past:
    """Use from one thread at a time. ``names`` are the views."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = (CAPTURE, *names)
        self._rings = {length: _Ring(self._names, length) for length in SPANS}
        self._open = {length: _Open(length) for length in SPANS}
        self._last_s: float | None = None

    def add(self, at_s: float, picture: Pipeline) -> list[Step]:
        """One more look; the steps that are over with it."""
        since_s = 0.0 if self._last_s is None else at_s - self._last_s
        self._last_s = at_s
        now = figures_of(picture)
        ended = []
        for one in self._open.values():
            if (step := one.add(at_s, now, max(0.0, min(since_s, _LONGEST_S)))) is not None:
                self.restore(step)
                ended.append(step)
        return ended

    def restore(self, step: Step) -> None:
        """A step that is over."""
        self._rings[step.length_s].put(step)

    def begun(self) -> Step | None:
        """The long step that time is in, as far as it has come."""
        return self._open[COARSE_S].step

    def resume(self, step: Step) -> None:
        """The newest long step of before, which may not be over: later looks at it are added."""
        self._open[step.length_s].resume(step)

    def history(
        self, length_s: int, names: Sequence[str], now_s: float, figure: str = ""
    ) -> History:
        """All steps of that length up to now, of capture and some views; of one figure, if it is
        named."""
        ring = self._rings[length_s]
        numbers = ring.numbers(int(now_s // length_s))
        series = [one for name in names for one in ring.series(name, numbers, figure)]
        return History(length_s, tuple(float(one * length_s) for one in numbers), tuple(series))

    def freshness(self, view: str, now_s: float) -> Freshness:
        """Over the last day."""
        late_s = self._rings[COARSE_S].late_s(view, int(now_s // COARSE_S))
        running = self._open[COARSE_S].late_s.get(view)
        whole = [a + b for a, b in zip(late_s, running or [0.0] * len(late_s), strict=True)]
        measured_s, span_s = sum(whole), COARSE_S * SPANS[COARSE_S]
        later = [sum(whole[i + 1 :]) for i in range(len(LAGS_S))]
        shares = tuple(one / measured_s for one in later) if measured_s else ()
        share = min(1.0, measured_s / span_s)
        return Freshness(view, span_s / 3_600, share, LAGS_S if shares else (), shares)


def figures_of(picture: Pipeline) -> dict[str, Figures]:
    """Of capture and each view, as a picture has them."""
    capture = picture.arrows[1]
    found = {CAPTURE: Figures(capture.state, capture.lag_s, capture.records_s, None)}
    for one in picture.views:
        found[one.view] = Figures(one.state, one.lag_s, one.applied_s, one.lag_records)
    return found


class _Open:
    """The step that time is in."""

    def __init__(self, length_s: int) -> None:
        self._length_s, self._number = length_s, -1
        self._seen: dict[str, _Together] = {}
        self._looks = 0
        self.late_s: dict[str, list[float]] = {}

    @property
    def step(self) -> Step | None:
        """As far as it has come."""
        if not self._seen:
            return None
        figures = {name: one.figures for name, one in self._seen.items()}
        return Step(self._length_s, self._number, figures, self.late_s, self._looks)

    def resume(self, step: Step) -> None:
        self._number, self._looks = step.number, step.looks
        self._seen = {name: _Together(one, step.looks) for name, one in step.figures.items()}
        self.late_s = {name: list(seconds) for name, seconds in step.late_s.items()}

    def add(self, at_s: float, now: Mapping[str, Figures], since_s: float) -> Step | None:
        """The step that is over with it, if one is."""
        number, ended = int(at_s // self._length_s), None
        if number != self._number:
            ended = self.step
            self._number, self._seen, self._looks, self.late_s = number, {}, 0, {}
        self._looks += 1
        for name, one in now.items():
            self._seen.setdefault(name, _Together()).add(one)
            if name != CAPTURE and one.lag_s is not None and self._length_s == COARSE_S:
                seconds = self.late_s.setdefault(name, [0.0] * (len(LAGS_S) + 1))
                seconds[bisect_left(LAGS_S, one.lag_s)] += since_s
        return ended


class _Together:
    """Of some looks the worst state, the greatest lag, and the mean of rates."""

    def __init__(self, before: Figures | None = None, looks: int = 0) -> None:
        self._states: set[State] = set()
        self._lag_s: float | None = None
        self._records: float | None = None
        self._rates, self._rated = 0.0, 0
        if before is not None:
            self.add(before)
            self._rates, self._rated = self._rates * looks, self._rated * looks

    def add(self, one: Figures) -> None:
        self._states.add(one.state)
        self._lag_s = _greater(self._lag_s, one.lag_s)
        self._records = _greater(self._records, one.lag_records)
        if one.records_s is not None:
            self._rates, self._rated = self._rates + one.records_s, self._rated + 1

    @property
    def figures(self) -> Figures:
        rate = self._rates / self._rated if self._rated else None
        return Figures(worst(self._states), self._lag_s, rate, self._records)


class _Ring:
    """One value of each figure for each of the last steps."""

    def __init__(self, names: Sequence[str], length_s: int) -> None:
        self._size = SPANS[length_s]
        self._numbers = array("q", [-1] * self._size)
        self._states = {name: array("b", [-1] * self._size) for name in names}
        self._values = {
            (name, figure): array("d", [_NONE] * self._size)
            for name in names
            for figure in _FIGURES
        }
        self._late: dict[str, list[array[float] | None]] = (
            {name: [None] * self._size for name in names} if length_s == COARSE_S else {}
        )

    def put(self, step: Step) -> None:
        at = step.number % self._size
        self._numbers[at] = step.number
        for name, states in self._states.items():
            one = step.figures.get(name)
            states[at] = -1 if one is None else WORST.index(one.state)
            for figure in _FIGURES:
                value = None if one is None else getattr(one, figure)
                self._values[name, figure][at] = _NONE if value is None else value
        for name, late in self._late.items():
            counts = step.late_s.get(name)
            late[at] = None if counts is None else array("f", counts)

    def numbers(self, newest: int) -> list[int]:
        """Of the steps that are remembered, the oldest first."""
        return sorted(one for one in self._numbers if newest - self._size < one <= newest)

    def series(self, name: str, numbers: Sequence[int], wanted: str = "") -> list[Series]:
        places = [number % self._size for number in numbers]
        found = []
        if wanted in ("", "state"):
            states = self._states[name]
            words = (None if states[at] < 0 else WORST[states[at]].value for at in places)
            found.append(Series("state", name, tuple(words)))
        for figure in _FIGURES:
            if (name == CAPTURE and figure == "lag_records") or wanted not in ("", figure):
                continue
            values = self._values[name, figure]
            found.append(Series(figure, name, tuple(_known(values[at]) for at in places)))
        return found

    def late_s(self, name: str, newest: int) -> list[float]:
        found = [0.0] * (len(LAGS_S) + 1)
        for number in self.numbers(newest):
            counts = self._late[name][number % self._size]
            for i, seconds in enumerate(counts or ()):
                found[i] += seconds
        return found


def _greater(a: float | None, b: float | None) -> float | None:
    return max((one for one in (a, b) if one is not None), default=None)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _number(value: object) -> float | None:
    if value is not None and not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} is no number")
    return value
