"""What ``many`` gives: names, units and targets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.many.footprint import FOOTPRINT
from benchmarks.many.views import STORES, VIEWS
from benchmarks.report.figure import Figure, below

MANY_RATES: Final = (6, 200)
"""Transactions a second of the shop whose ten views are kept at once."""
_MANY_TARGETS: Final = {6: (0.25, 250, 800), 200: (1, 400, 1_500)}
"""Cores, and milliseconds of caches and indexes: p50 and p99."""


def _of_many(rate: int) -> tuple[Figure, ...]:
    cores, p50, p99 = _MANY_TARGETS[rate]
    said, name = f"ten views, {rate} transactions/s", f"many_{rate}tx"
    return (
        Figure(f"{name}_cpu_cores", f"{said}: CPU of apply", "cores", 3, below(cores)),
        Figure(f"{name}_p50_ms", "commit to a reader of a cache or an index", "ms", 0, below(p50)),
        Figure(f"{name}_p99_ms", "the same, p99", "ms", 0, below(p99)),
        Figure(f"{name}_delta_p50_ms", "commit to a reader of a Delta table or history", "ms"),
        Figure(f"{name}_delta_p99_ms", "the same, p99", "ms", 0, below(3_000)),
        Figure(f"{name}_rss_mb", "apply's memory (PSS)", "MB", 0, below(1_500)),
        Figure(f"{name}_rate_per_s", "transactions meanwhile", "/s", 1),
        Figure(f"{name}_missing", "probes not readable at the end, of all views", ""),
        Figure(f"{name}_behind", "records that views had not applied at the end", ""),
    )


MANY_VIEWS: Final[Mapping[int, tuple[Figure, ...]]] = {
    rate: tuple(
        Figure(f"many_{rate}tx_{view.name}_{of}_ms", f"{view.name}, {of}", "ms")
        for view in VIEWS
        for of in ("p50", "p99")
    )
    for rate in MANY_RATES
}
"""By rate; shown in a table of their own."""
MANY: Final = (
    *(figure for rate in MANY_RATES for figure in _of_many(rate)),
    Figure("many_build_s", "build of a new view of 40,000 rows, slowest", "s", 1, below(5)),
    *(Figure(f"many_build_{store}_s", f"into {said}", "s", 1) for store, said in STORES.items()),
    Figure("many_create_all_s", "all ten views from nothing", "s", 1),
    Figure("group_change_ms", "a change in a group of 1,000,000 rows", "ms", 1, below(20)),
    Figure("group_change_rows_ms", "the same, computed from the rows of the group", "ms"),
    Figure("idle_50_views_cpu", "50 idle views, above one: CPU of apply", "cores", 3, below(0.02)),
    Figure("idle_50_views_rss_mb", "the same, apply's memory", "MB", 0, below(200)),
    *(figure for figures in MANY_VIEWS.values() for figure in figures),
    *FOOTPRINT,
)
