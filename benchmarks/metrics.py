"""What is measured: names, units and targets. Pure.

A measurement (``capture``, ``memory``, ...) gives one or several figures. ``results.json`` holds
a figure under the name that it has here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ROWS: Final = 1_000_000
"""Rows that capture, memory and snapshot are measured on."""
REPEATS: Final = 3
"""Runs of which the median counts."""


class Target(NamedTuple):
    """What a figure has to reach; ``at_least`` says on which side."""

    value: float
    at_least: bool

    def met(self, measured: float) -> bool:
        """Whether a figure is good enough. Upper limits are strict: less than 250 MB."""
        return measured >= self.value if self.at_least else measured < self.value


class Figure(NamedTuple):
    """One number of ``results.json``."""

    name: str
    what: str
    unit: str
    digits: int = 0
    target: Target | None = None


MEASUREMENTS: Final[Mapping[str, tuple[Figure, ...]]] = {
    "capture": (
        Figure(
            "capture_changes_per_s",
            "capture, from the stream's start to durable in Kafka",
            "changes/s",
            target=Target(80_000, at_least=True),
        ),
        Figure("capture_with_start_changes_per_s", "the same, with the process's start", "/s"),
        Figure("recvlogical_changes_per_s", "pg_recvlogical to a file, same WAL", "changes/s"),
        Figure("capture_vs_recvlogical", "capture / pg_recvlogical", "", 3),
        Figure("capture_cpu_s_per_million", "capture's CPU time", "s per million", 2),
        Figure("recvlogical_bytes_per_change", "size of a change in pgoutput", "bytes", 1),
    ),
    "memory": (
        Figure(
            "capture_rss_mb",
            "capture's peak memory, one transaction of all rows",
            "MB",
            1,
            Target(250, at_least=False),
        ),
    ),
    "snapshot": (
        Figure(
            "snapshot_rows_per_s",
            "initial snapshot, from the first row to durable in Kafka",
            "rows/s",
            target=Target(200_000, at_least=True),
        ),
        Figure("copy_rows_per_s", "COPY TO STDOUT piped to wc", "rows/s"),
        Figure("snapshot_vs_copy", "snapshot / COPY", "", 3),
    ),
    "latency": (
        Figure("commit_to_kafka_p50_ms", "from COMMIT returned to read by a consumer", "ms", 2),
        Figure(
            "commit_to_kafka_p99_ms",
            "the same, slowest of a hundred",
            "ms",
            2,
            Target(50, at_least=False),
        ),
        Figure("commit_rate_per_s", "commits while that was measured", "/s", 1),
    ),
    "demo": (
        Figure("demo_s", "headwater demo, dependencies there", "s", 1, Target(240, at_least=False)),
    ),
}
"""In the order in which they run."""

FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure for figures in MEASUREMENTS.values() for figure in figures
}
