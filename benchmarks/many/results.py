"""What a run amounts to: figures of each view, and of all of them together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.capture.latency import percentile
from benchmarks.many.footprint import APPLY, STATE, footprint_figures
from benchmarks.many.views import VIEWS

if TYPE_CHECKING:
    from benchmarks.many.usage import Taken


class Phase(NamedTuple):
    """One rate. ``taken`` by each part; ``waits_ms`` of each view are in order; ``behind`` in
    records of its topics, at the end, all views together; ``missing`` probes that views did not
    show by then."""

    rate: int
    rate_per_s: float
    taken: Mapping[str, Taken]
    waits_ms: Mapping[str, Sequence[float]]
    missing: int
    behind: int


def phase_figures(phase: Phase) -> dict[str, float]:
    """By their names in ``results.json``."""
    served = sorted(_of(phase, delta=False))
    lake = sorted(_of(phase, delta=True))
    apply = phase.taken[APPLY], phase.taken[STATE]
    figures: dict[str, float] = {
        "cpu_cores": sum(one.cpu_cores for one in apply),
        "p50_ms": percentile(served, 50),
        "p99_ms": percentile(served, 99),
        "delta_p50_ms": percentile(lake, 50),
        "delta_p99_ms": percentile(lake, 99),
        "rss_mb": sum(one.rss_mb for one in apply),
        "rate_per_s": phase.rate_per_s,
        "missing": phase.missing,
        "behind": phase.behind,
    }
    for view, waits in phase.waits_ms.items():
        figures[f"{view}_p50_ms"] = percentile(waits, 50)
        figures[f"{view}_p99_ms"] = percentile(waits, 99)
    return {
        **{f"many_{phase.rate}tx_{name}": value for name, value in figures.items()},
        **footprint_figures(f"ten_{phase.rate}tx", phase.taken),
    }


def build_figures(seconds: Mapping[str, float]) -> dict[str, float]:
    """By store; the slowest is what a new view takes."""
    figures = {f"many_build_{store}_s": took for store, took in seconds.items()}
    return {"many_build_s": max(seconds.values()), **figures}


def _of(phase: Phase, *, delta: bool) -> Iterator[float]:
    for view in VIEWS:
        if view.is_delta == delta:
            yield from phase.waits_ms[view.name]
