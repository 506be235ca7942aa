"""What the runs of a race amount to: medians, and the worst over all races. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from benchmarks.capture.shapes import RACES

RACERS: Final = ("capture", "debezium", "recvlogical")


class Run(NamedTuple):
    """One racer, once over all rows. CPU is that of its own process, in µs for a change."""

    changes_per_s: float
    cpu_us: float
    rss_mb: float = 0.0


def race_figures(race: str, runs: Mapping[str, Sequence[Run]]) -> dict[str, float]:
    """The medians of each racer's runs; of memory the highest."""
    figures: dict[str, float] = {}
    for racer, of_racer in runs.items():
        figures[f"{racer}_{race}_changes_per_s"] = median(run.changes_per_s for run in of_racer)
        figures[f"{racer}_{race}_cpu_us"] = median(run.cpu_us for run in of_racer)
    figures[f"capture_{race}_rss_mb"] = max(run.rss_mb for run in runs["capture"])
    return figures


def form_figures(form: str, runs: Mapping[str, Sequence[Run]]) -> dict[str, float]:
    """The medians of both racers, for events in this form."""
    figures: dict[str, float] = {}
    for racer, of_racer in runs.items():
        rate = median(run.changes_per_s for run in of_racer)
        figures[f"{racer}_form_{form}_changes_per_s"] = rate
        figures[f"{racer}_form_{form}_cpu_us"] = median(run.cpu_us for run in of_racer)
    return figures


def worst_form(figures: Mapping[str, float], forms: Sequence[str]) -> dict[str, float]:
    """Capture beside Debezium in the form in which it looks worst."""

    def ratios(of: str) -> list[float]:
        return [
            figures[f"capture_form_{form}_{of}"] / figures[f"debezium_form_{form}_{of}"]
            for form in forms
        ]

    return {
        "forms_vs_debezium": min(ratios("changes_per_s")),
        "forms_cpu_vs_debezium": max(ratios("cpu_us")),
    }


def worst(figures: Mapping[str, float]) -> dict[str, float]:
    """Capture beside its peers in the race in which it looks worst, for each comparison."""
    names = [race.name for race in RACES]

    def ratios(peer: str, of: str) -> list[float]:
        return [figures[f"capture_{n}_{of}"] / figures[f"{peer}_{n}_{of}"] for n in names]

    return {
        "capture_changes_per_s": figures["capture_usual_1000row_changes_per_s"],
        "capture_vs_debezium": min(ratios("debezium", "changes_per_s")),
        "capture_vs_recvlogical": min(ratios("recvlogical", "changes_per_s")),
        "capture_cpu_vs_debezium": max(ratios("debezium", "cpu_us")),
    }
