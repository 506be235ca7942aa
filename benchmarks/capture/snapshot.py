"""The initial snapshot beside Debezium's, and beside a bare COPY of the same columns.

They take turns on the same table, so that what disturbs the machine disturbs all.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from benchmarks import process_usage
from benchmarks.capture.process import slot_of
from benchmarks.capture.shapes import Shape
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import Setting, create_table, drop_table, init_source, load, settle
from benchmarks.peers.debezium import snapshot, warm_worker
from benchmarks.report.metrics import REPEATS, SNAPSHOT_SHAPES
from cdc.errors import FatalError
from cdc.kafka.broker import Broker, last_record
from cdc.source.postgres import Connection
from cdc.topics import progress_topic, table_topic
from stack.debezium import Worker
from stack.postgres import client_binaries

_COPY_TIMEOUT_S: Final = 300.0


class Turn(NamedTuple):
    """Rows a second of each, once over the table, and the snapshot's peak memory."""

    snapshot: float
    debezium: float
    copy: float
    rss_mb: float


def measure_snapshot(setting: Setting) -> dict[str, float]:
    """Each shape of table; medians of ``REPEATS`` turns, of memory the highest."""
    turns: dict[str, list[Turn]] = {}
    with setting.connect() as conn, warm_worker(setting, conn) as worker:
        for shape, share in SNAPSHOT_SHAPES:
            rows = round(setting.rows * share)
            turns[shape.name] = snapshot_turns(setting, conn, worker, shape, rows, REPEATS)
    return snapshot_figures(turns)


def snapshot_figures(turns: Mapping[str, Sequence[Turn]]) -> dict[str, float]:
    """The medians of each shape, and what they come to. Pure."""
    figures: dict[str, float] = {}
    of_debezium = []
    for shape, taken in turns.items():
        ours, debezium, copy = (median(turn[i] for turn in taken) for i in range(3))
        figures[f"snapshot_{shape}_rows_per_s"] = ours
        figures[f"debezium_snapshot_{shape}_rows_per_s"] = debezium
        figures[f"copy_{shape}_rows_per_s"] = copy
        of_debezium.append(ours / debezium)
    rows_per_s, copied_per_s = (
        figures.pop(f"{of}_usual_rows_per_s") for of in ("snapshot", "copy")
    )
    return figures | {
        "snapshot_rows_per_s": rows_per_s,
        "copy_rows_per_s": copied_per_s,
        "snapshot_vs_copy": rows_per_s / copied_per_s,
        "snapshot_vs_debezium": min(of_debezium),
        "snapshot_rss_mb": max(turn.rss_mb for taken in turns.values() for turn in taken),
    }


def snapshot_turns(
    setting: Setting, conn: Connection, worker: Worker, shape: Shape, rows: int, repeats: int
) -> list[Turn]:
    """Each so many times over a table of so many rows."""
    table = f"{shape.name}_copied"
    create_table(conn, shape, table)
    load(setting, conn, shape, table, rows, rows)
    settle(conn, table)
    turns = []
    for i in range(repeats):
        source = f"{shape.name}_snapshot{i}"
        copy_s = _copy(setting, shape, table, rows)
        snapshot_s, rss_mb = _snapshot(setting, conn, source, table, rows)
        theirs = snapshot(setting, conn, worker, f"dbz_{source}", slot_of(source), table, rows)
        turns.append(Turn(rows / snapshot_s, theirs.changes_per_s, rows / copy_s, rss_mb))
    drop_table(conn, table)
    return turns


def _snapshot(
    setting: Setting, conn: Connection, source: str, table: str, rows: int
) -> tuple[float, float]:
    """Seconds from the moment the table's COPY begins, which its records carry as their time, to
    the progress mark, which is written when Kafka has acknowledged every row; and the peak memory
    of the process that had most."""
    peak_mb = 0.0

    def look(pid: int) -> None:
        nonlocal peak_mb
        peak_mb = max(peak_mb, process_usage.largest_rss_mb(pid))

    init_source(setting, source, table, on_wait=look)
    drop_slot(conn, slot_of(source))
    topic = table_topic(source, "public", table)
    with Broker(setting.bootstrap) as broker:
        ends = broker.end_offsets([topic])[topic]
        if sum(ends.values()) != rows:
            raise FatalError(f"topic {topic} holds {sum(ends.values())} of {rows} rows")
        partition = next(partition for partition, end in ends.items() if end)
        (first,) = broker.read(topic, partition, 0, 1)
        mark = last_record(broker, progress_topic(source))
    assert mark is not None, source
    return (mark.timestamp_ms - first.timestamp_ms) / 1000, peak_mb


def _copy(setting: Setting, shape: Shape, table: str, rows: int) -> float:
    """Seconds of ``psql -c 'COPY ... TO STDOUT' | wc -l``, processes' start included."""
    statement = f"copy (select {shape.names} from only public.{table}) to stdout"
    command = [
        str(client_binaries() / "psql"),
        "--no-psqlrc",
        "--dbname",
        setting.dsn,
        "-c",
        statement,
    ]
    setting.watch("COPY | wc", 0)
    started = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as psql:
        counted = subprocess.run(
            ["wc", "-l"],
            stdin=psql.stdout,
            capture_output=True,
            check=True,
            timeout=_COPY_TIMEOUT_S,
        )
    seconds = time.monotonic() - started
    if psql.returncode or int(counted.stdout) != rows:
        raise FatalError(f"COPY gave {int(counted.stdout)} of {rows} rows")
    return seconds
