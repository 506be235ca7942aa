"""What is measured: names, units and targets. Pure.

A measurement (``capture``, ``memory``, ...) gives one or several figures. ``results.json`` holds
a figure under the name that it has here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from benchmarks.capture.shapes import NARROW, RACES, USUAL, WIDE, Shape
from benchmarks.many.figures import MANY, MANY_VIEWS
from benchmarks.many.footprint import FOOTPRINT
from benchmarks.report.figure import Figure, at_least, below
from benchmarks.views.wait_figures import WAIT

ROWS: Final = 1_000_000
"""Rows of a full measurement; what needs more or fewer takes its share of them."""
REPEATS: Final = 3
"""Runs of which the median counts."""


def _of_visible(view: str, said: str, p50: float | None, p99: float) -> tuple[Figure, Figure]:
    typical = None if p50 is None else below(p50)
    return (
        Figure(f"visible_{view}_p50_ms", f"commit to a reader of {said}, p50", "ms", 0, typical),
        Figure(f"visible_{view}_p99_ms", "the same, p99", "ms", 0, below(p99)),
    )


_RACERS: Final = {"capture": "capture", "debezium": "Debezium", "recvlogical": "pg_recvlogical"}


def _of_race(race: str) -> tuple[Figure, ...]:
    rates = (Figure(f"{r}_{race}_changes_per_s", said, "/s") for r, said in _RACERS.items())
    cpu = (Figure(f"{r}_{race}_cpu_us", f"{said}, CPU", "µs", 2) for r, said in _RACERS.items())
    return (*rates, *cpu, Figure(f"capture_{race}_rss_mb", "capture, peak memory", "MB", 1))


FORMS: Final[Mapping[str, str]] = {
    "schemas": "`schemas = true`",
    "preset": '`preset = "debezium"`',
    "avro": "Avro, the preset",
}
"""Of events, by the name that figures have."""


def _of_form(form: str, said: str) -> Iterator[Figure]:
    for racer in ("capture", "debezium"):
        name = f"{racer}_form_{form}"
        yield Figure(f"{name}_changes_per_s", f"{_RACERS[racer]}, {said}", "changes/s")
        yield Figure(f"{name}_cpu_us", "the same, CPU of a change", "µs", 1)


SNAPSHOT_SHAPES: Final = ((NARROW, 1.0), (USUAL, 1.0), (WIDE, 0.2))
"""Tables that are snapshotted, and their part of the rows of a full measurement."""


def _of_snapshot(shape: Shape) -> Iterator[Figure]:
    name, rows = shape.name, f"{shape.name} rows"
    theirs = Figure(
        f"debezium_snapshot_{name}_rows_per_s", f"Debezium's snapshot, {rows}", "rows/s"
    )
    if shape is not USUAL:  # whose own two figures are the measurement's first
        yield Figure(f"snapshot_{name}_rows_per_s", f"initial snapshot, {rows}", "rows/s")
        yield Figure(f"copy_{name}_rows_per_s", f"COPY TO STDOUT piped to wc, {rows}", "rows/s")
    yield theirs


RACE_FIGURES: Final[Mapping[str, tuple[Figure, ...]]] = {
    race.name: _of_race(race.name) for race in RACES
}
"""By race; shown in a table of their own. CPU is for a change, of the racer's process alone."""

VISIBLE: Final = (
    *_of_visible("redis", "Redis", 250, 600),
    *_of_visible("opensearch", "OpenSearch, by a search", 250, 600),
    *_of_visible("delta", "Delta", None, 3_000),
    *_of_visible("join", "a join of two tables, in OpenSearch", None, 4_000),
    Figure("visible_rate_per_s", "commits meanwhile, lowest", "/s", 1),
    Figure("visible_look_ms", "time between two reads of a store, slowest mean", "ms", 1),
    Figure("plain_merge_visible_p50_ms", "a plain MERGE into Delta, commit to reader, p50", "ms"),
    Figure("plain_merge_visible_p99_ms", "the same, p99", "ms"),
    Figure(
        "latency_vs_plain_merge",
        "Delta / plain MERGE, the worse of p50 and p99",
        "",
        2,
        below(0.5),
    ),
)
_STORES: Final = (
    ("delta", "Delta", 40_000),
    ("redis", "Redis", 60_000),
    ("opensearch", "OpenSearch", 25_000),
)
APPLY: Final = (
    *(
        Figure(
            f"apply_{name}_changes_per_s",
            f"catch-up of 1,000,000 changes of 100,000 keys: {said}",
            "changes/s",
            target=at_least(target),
        )
        for name, said, target in _STORES
    ),
    *(
        Figure(f"apply_{name}_with_start_changes_per_s", f"with Spark's start: {said}", "changes/s")
        for name, said, _ in _STORES
    ),
    Figure(
        "apply_opensearch_vs_bulk",
        "changes/s: OpenSearch / documents/s of opensearch-py's bulk",
        "",
        2,
        at_least(0.6),
    ),
    Figure("apply_opensearch_documents_per_s", "documents written to OpenSearch", "/s"),
    Figure("bulk_opensearch_documents_per_s", "opensearch-py's bulk, the faster helper", "/s"),
    Figure("apply_vs_plain_merge", "changes/s: Delta / a plain MERGE", "", 2, at_least(2)),
    Figure("plain_merge_changes_per_s", "a plain MERGE", "changes/s"),
)
JOINED: Final = (
    Figure(
        "apply_join_changes_per_s",
        "catch-up of 1,000,000 changes of two tables: their join in Redis",
        "changes/s",
        target=at_least(60_000),
    ),
)
GROWTH_ROWS: Final = (10_000, 100_000, 1_000_000)
"""Rows of the mirrors that a batch of a joined view is measured over."""
GROWTH: Final = (
    *(
        Figure(
            f"growth_{rows}_batch_ms",
            f"100 changes of a joined view, {rows:,} rows of mirrors",
            "ms",
        )
        for rows in GROWTH_ROWS
    ),
    Figure("growth_ratio", "the largest / the smallest", "", 2),
)

MEASUREMENTS: Final[Mapping[str, tuple[Figure, ...]]] = {
    "capture": (
        Figure(
            "capture_changes_per_s",
            "capture, usual rows, 1,000 a transaction",
            "changes/s",
            target=at_least(80_000),
        ),
        Figure("capture_vs_debezium", "changes/s: capture / Debezium, worst", "", 2, at_least(2.5)),
        Figure(
            "capture_vs_recvlogical",
            "changes/s: capture / pg_recvlogical, worst",
            "",
            3,
            at_least(0.85),
        ),
        Figure("capture_cpu_vs_debezium", "CPU: capture / Debezium, worst", "", 3, below(0.25)),
        Figure("debezium_rss_mb", "Debezium's peak memory over all races", "MB"),
        *(figure for figures in RACE_FIGURES.values() for figure in figures),
    ),
    "forms": (
        Figure(
            "forms_vs_debezium",
            "changes/s with schemas: capture / Debezium, the worst form",
            "",
            2,
            at_least(2.5),
        ),
        Figure(
            "forms_cpu_vs_debezium",
            "CPU with schemas: capture / Debezium, the worst form",
            "",
            3,
            below(0.25),
        ),
        *(figure for form, said in FORMS.items() for figure in _of_form(form, said)),
    ),
    "memory": (
        Figure("capture_rss_mb", "capture's peak memory, the larger of", "MB", 1, below(150)),
        Figure("capture_large_transaction_rss_mb", "one transaction of 5,000,000 rows", "MB", 1),
        Figure("capture_kafka_down_rss_mb", "Kafka down for a minute", "MB", 1),
    ),
    "restart": (
        Figure("restart_s", "from start after kill -9 to the first event, worst", "s", 2, below(3)),
    ),
    "latency": (
        Figure(
            "commit_to_kafka_p50_ms",
            "COMMIT returned until a consumer has the record, p50",
            "ms",
            2,
            below(3),
        ),
        Figure("commit_to_kafka_p99_ms", "the same, p99", "ms", 2, below(12)),
        Figure("commit_rate_per_s", "commits meanwhile", "/s", 1),
        Figure("debezium_commit_to_kafka_p50_ms", "Debezium, tuned for latency, p50", "ms", 2),
        Figure("debezium_commit_to_kafka_p99_ms", "the same, p99", "ms", 2),
    ),
    "snapshot": (
        Figure(
            "snapshot_rows_per_s",
            "initial snapshot, from the first row to durable in Kafka",
            "rows/s",
            target=at_least(200_000),
        ),
        Figure("copy_rows_per_s", "COPY TO STDOUT piped to wc", "rows/s"),
        Figure("snapshot_vs_copy", "snapshot / COPY", "", 3, at_least(0.3)),
        Figure(
            "snapshot_vs_debezium",
            "rows/s: snapshot / Debezium's, worst shape",
            "",
            2,
            at_least(5),
        ),
        Figure("snapshot_rss_mb", "the snapshot's peak memory, worst", "MB", 1, below(200)),
        *(figure for shape, _ in SNAPSHOT_SHAPES for figure in _of_snapshot(shape)),
    ),
    "beside": (
        Figure(
            "stream_p99_during_snapshot_ratio",
            "commit to consumer, p99: during snapshots at the default rate / alone",
            "",
            2,
            below(2),
        ),
        Figure("stream_p99_alone_ms", "the stream alone, p99", "ms", 2),
        Figure("stream_p99_during_snapshot_ms", "the stream during snapshots, p99", "ms", 2),
        Figure(
            "snapshot_resume_reread_share",
            "share of rows read twice when a snapshot is killed at 90 %",
            "",
            3,
            below(0.15),
        ),
    ),
    "bootstrap": (
        Figure(
            "bootstrap_delta_rows_per_s",
            "build of a view, until the switch: Delta",
            "rows/s",
            target=at_least(120_000),
        ),
        Figure("bootstrap_redis_rows_per_s", "the same: Redis", "rows/s", target=at_least(80_000)),
        Figure("bootstrap_opensearch_rows_per_s", "the same: OpenSearch", "rows/s"),
        Figure(
            "bootstrap_opensearch_vs_bulk",
            "rows/s: OpenSearch / documents/s of opensearch-py's bulk",
            "",
            2,
            at_least(0.8),
        ),
        Figure(
            "bootstrap_join_s",
            "build of a join of 1,000,000 rows, over existing mirrors: Delta",
            "s",
            1,
            below(10),
        ),
    ),
    "visible": VISIBLE,
    "wait": WAIT,
    "apply": APPLY,
    "joined": JOINED,
    "growth": GROWTH,
    "many": MANY,
    "demo": (Figure("demo_s", "headwater demo, dependencies installed", "s", 1, below(90)),),
    "chaos": (
        Figure("chaos_seeds", "seeds of the fault test", "", target=at_least(200)),
        Figure("chaos_failures", "seeds that failed", "", target=below(1)),
    ),
    "snapshot-seeds": (
        Figure("snapshot_seeds", "seeds of killed snapshots", "", target=at_least(50)),
        Figure("snapshot_failures", "seeds that failed", "", target=below(1)),
    ),
    "view-seeds": (
        Figure("view_seeds", "seeds of maintained views", "", target=at_least(200)),
        Figure("view_spark_seeds", "seeds with Spark and kills", ""),
        Figure("view_failures", "seeds that failed", "", target=below(1)),
    ),
}
"""In the order in which they run."""

ON_REQUEST: Final = frozenset({"chaos", "snapshot-seeds", "view-seeds"})
"""Run only when named: they take longer than all others together."""

FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure for figures in MEASUREMENTS.values() for figure in figures
}
IN_TABLES: Final = frozenset(
    figure.name
    for figures in (*RACE_FIGURES.values(), *MANY_VIEWS.values(), FOOTPRINT)
    for figure in figures
)
"""Figures that are shown in tables of their own."""
