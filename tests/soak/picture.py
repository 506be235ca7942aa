"""Memory and lag over time, with the faults, as an SVG for light and dark pages. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from tests.soak.growth import Sample, judged

_WIDTH: Final = 960
_LEFT, _RIGHT = 210, 20
_PANEL, _GAP, _TOP, _ROW = 170, 40, 46, 15
_STYLE: Final = """
svg { color-scheme: light dark; font: 12px system-ui, sans-serif }
.page { fill: #fff } text { fill: #333 } .grid { stroke: #8884; fill: none }
.fault { stroke: #888; stroke-dasharray: 2 3; opacity: .5 } .dot { fill: #b35900 }
.settling { fill: #8882 } .head { font-weight: 600 }
.capture { stroke: #0b6fb8 } .apply { stroke: #b3261e } .lag { stroke: #2e7d32 }
path { fill: none; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) {
  .page { fill: #151719 } text { fill: #ddd } .dot { fill: #ffb066 }
  .capture { stroke: #6cb8f0 } .apply { stroke: #ff8a80 } .lag { stroke: #81c784 }
}
"""


class Fault(NamedTuple):
    """``minute`` is when it began."""

    minute: float
    name: str


def svg(samples: Sequence[Sample], faults: Sequence[Fault], minutes: float, title: str) -> str:
    """The whole picture."""
    names = sorted({fault.name for fault in faults})
    bottom = _TOP + 2 * (_PANEL + _GAP)
    height = bottom + _ROW * len(names) + 30
    x = _scale(max([minutes, *(one.minute for one in samples)]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        _text(_LEFT, 20, title, "head"),
        *_settling(minutes, x, bottom + _ROW * len(names)),
        *_faults(faults, names, x, bottom),
        *_memory(samples, x, _TOP),
        *_lag(samples, x, _TOP + _PANEL + _GAP),
        *_minutes(minutes, x, height - 10),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(minutes: float) -> Callable[[float], float]:
    return lambda minute: _LEFT + (_WIDTH - _LEFT - _RIGHT) * minute / minutes


def _settling(minutes: float, x: Callable[[float], float], bottom: float) -> Iterator[str]:
    """What is not judged is grey."""
    window = judged(minutes)
    for begin, end in ((0.0, window[0]), (window[1], minutes)) if window else ():
        yield (
            f'<rect class="settling" x="{x(begin):.1f}" y="{_TOP}" width="{x(end) - x(begin):.1f}"'
            f' height="{bottom - _TOP}"/>'
        )


def _faults(
    faults: Sequence[Fault], names: Sequence[str], x: Callable[[float], float], top: float
) -> Iterator[str]:
    for number, name in enumerate(names):
        yield _text(_LEFT - 8, top + _ROW * number + 4, name, "", "end")
    for fault in faults:
        at, y = x(fault.minute), top + _ROW * names.index(fault.name)
        yield f'<line class="fault" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{y}"/>'
        said = escape(f"{fault.name}, minute {fault.minute:.1f}")
        yield f'<circle class="dot" cx="{at:.1f}" cy="{y}" r="4"><title>{said}</title></circle>'


def _memory(samples: Sequence[Sample], x: Callable[[float], float], top: float) -> Iterator[str]:
    shown = ("capture", "apply")
    most = max((one.values.get(f"{name}_mb", 0) for one in samples for name in shown), default=0)
    step = _step(max(most, 10))
    ceiling = step * math.ceil(max(most, 10) / step)

    def y(value: float) -> float:
        return top + _PANEL * (1 - value / ceiling)

    yield _text(_LEFT - 60, top - 8, "memory, MB", "head", "end")
    ticks = [step * number for number in range(round(ceiling / step) + 1)]
    yield from _grid([(value, y(value)) for value in ticks])
    for name in shown:
        yield from _curve(samples, f"{name}_mb", name, x, y)
    yield from _legend(top, ("capture", "capture"), ("apply", "apply, Spark, state database"))


def _step(most: float) -> float:
    """Between ticks of a scale: 1, 2 or 5 times a power of ten, at most six times."""
    power = 10.0 ** math.floor(math.log10(most / 6))
    return next(power * times for times in (1, 2, 5, 10) if power * times * 6 >= most)


def _lag(samples: Sequence[Sample], x: Callable[[float], float], top: float) -> Iterator[str]:
    """Logarithmic, from a tenth of a second; what is less is shown as that."""
    most = max((one.values.get("lag_s", 0) for one in samples), default=0)
    decades = max(2, math.ceil(math.log10(max(most, 1)) + 1))

    def y(value: float) -> float:
        return top + _PANEL * (1 - (math.log10(max(value, 0.1)) + 1) / decades)

    yield _text(_LEFT - 60, top - 8, "lag, s", "head", "end")
    yield from _grid([(value, y(value)) for value in (10.0 ** (n - 1) for n in range(decades + 1))])
    yield from _curve(samples, "lag_s", "lag", x, y)
    yield from _legend(top, ("lag", "the view that is furthest behind"))


def _curve(
    samples: Sequence[Sample],
    of: str,
    style: str,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> Iterator[str]:
    """A gap where nothing was measured."""
    drawn, moving = [], "M"
    for one in samples:
        if of in one.values:
            drawn.append(f"{moving}{x(one.minute):.1f},{y(one.values[of]):.1f}")
            moving = "L"
        else:
            moving = "M"
    if drawn:
        yield f'<path class="{style}" d="{" ".join(drawn)}"/>'


def _grid(ticks: Sequence[tuple[float, float]]) -> Iterator[str]:
    for value, at in ticks:
        yield f'<path class="grid" d="M{_LEFT},{at:.1f}H{_WIDTH - _RIGHT}"/>'
        yield _text(_LEFT - 8, at + 4, f"{value:,g}", "", "end")


def _legend(top: float, *entries: tuple[str, str]) -> Iterator[str]:
    at = _LEFT
    for style, said in entries:
        yield f'<path class="{style}" d="M{at},{top - 12}h18"/>'
        yield _text(at + 24, top - 8, said)
        at += 60 + 7 * len(said)


def _minutes(minutes: float, x: Callable[[float], float], y: float) -> Iterator[str]:
    step = next(one for one in (1, 2, 5, 10, 20, 60) if minutes / one <= 15 or one == 60)
    for minute in range(0, int(minutes) + 1, step):
        yield _text(x(minute), y, f"{minute} min" if minute == 0 else str(minute), "", "middle")


def _text(x: float, y: float, said: str, style: str = "", anchor: str = "start") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'
