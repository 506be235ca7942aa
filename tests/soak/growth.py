"""Did anything grow that must not, once everything had run for a while? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

SETTLING_MINUTES: Final = 15.0
"""Nothing is judged before: a JVM compiles, caches fill, and the first faults are kills."""
LEAST_MINUTES: Final = 5.0
"""Of what is judged; a shorter run judges no growth."""


class Sample(NamedTuple):
    """What was measured at one moment; what could not be measured is left out."""

    minute: float
    values: Mapping[str, float]


class Bound(NamedTuple):
    """How far the median of the last third of what is judged may be above that of the first third:
    by ``share`` of it, or by ``plus`` if that is more. ``most``: what no value may be above."""

    what: str
    unit: str
    share: float = 0.0
    plus: float = 0.0
    most: float | None = None


BOUNDS: Final[Mapping[str, Bound]] = {
    "capture_mb": Bound("memory of capture", "MB", share=0.03),
    "apply_mb": Bound("memory of apply without the state database's buffers", "MB", share=0.03),
    "apply_python_mb": Bound("of it Python", "MB", share=0.03, plus=16),
    "apply_java_mb": Bound("of it Java", "MB", share=0.03, plus=16),
    "apply_postgres_mb": Bound("of it the state database", "MB", share=0.03, plus=8),
    "apply_shared_mb": Bound("buffers of the state database", "MB", most=100),
    "capture_handles": Bound("open handles of capture", "", plus=4),
    "apply_handles": Bound("open handles of apply", "", plus=32),
    "capture_threads": Bound("threads of capture", "", plus=2),
    "apply_threads": Bound("threads of apply", "", plus=16),
    "state_files": Bound("files of apply.state beside the state database", "", plus=20),
    "state_database_mb": Bound(
        "tables of the state database, without what is kept", "MB", share=0.1, plus=8
    ),
    "state_wal_mb": Bound("WAL of the state database", "MB", most=1_100),
    "delta_files": Bound("files that the newest Delta versions consist of", "", most=300),
    "topics": Bound("topics of the source", ""),
    "lag_s": Bound("lag of the view that is furthest behind", "s", plus=1.0),
}
"""By the name of what is measured; of the state database without what it keeps by design."""


def judged(minutes: float) -> tuple[float, float] | None:
    """From and to which minute of a run growth is judged; None for a run that is too short. The
    last minute has kills again."""
    if minutes - 1 - SETTLING_MINUTES < LEAST_MINUTES:
        return None
    return SETTLING_MINUTES, minutes - 1


def growth(samples: Sequence[Sample], minutes: float) -> Iterator[str]:
    """A line for each bound that is not held, or of which nothing is known."""
    window = judged(minutes)
    if window is None:
        return
    begin, end = window
    for name, bound in BOUNDS.items():
        thirds = [_values(samples, name, *part) for part in _thirds(begin, end)]
        if not all(thirds):
            yield f"{bound.what}: not measured from minute {begin:.0f} to {end:.0f}"
            continue
        first, last = median(thirds[0]), median(thirds[2])
        largest = max(value for third in thirds for value in third)
        if bound.most is not None:
            if largest > bound.most:
                yield f"{bound.what}: {_shown(largest, bound)}, at most {bound.most:,.0f}"
        elif last > first + max(bound.share * first, bound.plus):
            allowed = first + max(bound.share * first, bound.plus)
            yield (
                f"{bound.what} grew from {_shown(first, bound)} to {_shown(last, bound)} between"
                f" minute {begin:.0f} and {end:.0f}, at most {_shown(allowed, bound)} allowed"
            )


def changes(samples: Sequence[Sample], minutes: float) -> Mapping[str, tuple[float, float]]:
    """The medians that ``growth`` compares, of what was measured; without a window those of the
    first and last third of the run."""
    begin, end = judged(minutes) or (0.0, minutes)
    first, _, last = _thirds(begin, end)
    found = {}
    for name in BOUNDS:
        before, after = _values(samples, name, *first), _values(samples, name, *last)
        if before and after:
            found[name] = median(before), median(after)
    return found


def _thirds(begin: float, end: float) -> list[tuple[float, float]]:
    step = (end - begin) / 3
    return [(begin + step * number, begin + step * (number + 1)) for number in range(3)]


def _values(samples: Sequence[Sample], name: str, begin: float, end: float) -> list[float]:
    return [
        one.values[name] for one in samples if begin <= one.minute <= end and name in one.values
    ]


def _shown(value: float, bound: Bound) -> str:
    return f"{value:,.1f} {bound.unit}".rstrip()
