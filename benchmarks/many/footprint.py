"""What each part of a deployment takes, idle and under load: names of figures, and their table.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from benchmarks.report.figure import Figure

if TYPE_CHECKING:
    from benchmarks.many.usage import Taken

CAPTURE, APPLY, STATE = "capture", "apply", "state"
SERVERS: Final = {
    "postgres": "PostgreSQL (source and store)",
    "kafka": "Kafka",
    "opensearch": "OpenSearch",
    "redis": "Redis",
}
PARTS: Final = {
    CAPTURE: "`headwater capture`",
    APPLY: "`headwater apply`",
    STATE: "its state database",
    **SERVERS,
}
"""How each is called in the table."""
CONDITIONS: Final = {
    "one_idle": "one view, idle",
    "one_200tx": "one view, 200 transactions/s",
    "ten_idle": "ten views, idle",
    "ten_6tx": "ten views, 6 transactions/s",
    "ten_200tx": "ten views, 200 transactions/s",
}
FOOTPRINT: Final = tuple(
    Figure(f"footprint_{condition}_{part}_{name}", f"{said}: {PARTS[part]}", unit, digits)
    for condition, said in CONDITIONS.items()
    for part in PARTS
    for name, unit, digits in (("rss_mb", "MB", 0), ("cpu_cores", "cores", 3))
)


def footprint_figures(condition: str, taken: Mapping[str, Taken]) -> dict[str, float]:
    """By their names in ``results.json``."""
    assert condition in CONDITIONS
    figures: dict[str, float] = {}
    for part, of_part in taken.items():
        figures[f"footprint_{condition}_{part}_rss_mb"] = of_part.rss_mb
        figures[f"footprint_{condition}_{part}_cpu_cores"] = of_part.cpu_cores
    return figures


def footprint_headings() -> list[str]:
    """Of ``footprint_rows``."""
    return ["part", *CONDITIONS.values()]


def footprint_rows(results: Mapping[str, float | str]) -> list[list[str]]:
    """One line a part: memory and CPU in each condition."""
    return [
        [said, *(_cell(results, condition, part) for condition in CONDITIONS)]
        for part, said in PARTS.items()
    ]


def _cell(results: Mapping[str, float | str], condition: str, part: str) -> str:
    rss_mb = results.get(f"footprint_{condition}_{part}_rss_mb")
    cores = results.get(f"footprint_{condition}_{part}_cpu_cores")
    if rss_mb is None or cores is None:
        return "-"
    return f"{float(rss_mb):,.0f} MB, {float(cores):.2f} cores"
