"""The initial snapshot's speed against that of a bare COPY of the same columns."""

from __future__ import annotations

import subprocess
import time
from statistics import median
from typing import Final

from benchmarks.capturing import slot_of
from benchmarks.metrics import REPEATS
from benchmarks.setting import Setting, checkpoint, create_table, init_source, load
from benchmarks.shapes import USUAL
from benchmarks.slots import drop_slot
from cdc.errors import FatalError
from cdc.kafka.broker import Broker, last_record
from cdc.source.postgres import Connection, translated
from cdc.topics import progress_topic, table_topic
from stack.postgres import client_binaries

_COPY_TIMEOUT_S: Final = 300.0


def measure_snapshot(setting: Setting) -> dict[str, float]:
    """Rows a second of ``headwater init``'s snapshot and of COPY; medians of ``REPEATS`` runs."""
    table, rows = "orders_copied", setting.rows
    with setting.connect() as conn:
        create_table(conn, USUAL, table)
        load(setting, conn, USUAL, table, rows, rows)
        with translated("vacuum"):
            conn.execute(f"vacuum analyze public.{table}".encode())
        checkpoint(conn)
        snapshots, copies = [], []
        for i in range(REPEATS):
            copies.append(_copy(setting, table))
            snapshots.append(_snapshot(setting, conn, f"snapshot{i}", table))
    snapshot_s, copy_s = median(snapshots), median(copies)
    return {
        "snapshot_rows_per_s": rows / snapshot_s,
        "copy_rows_per_s": rows / copy_s,
        "snapshot_vs_copy": copy_s / snapshot_s,
    }


def _snapshot(setting: Setting, conn: Connection, source: str, table: str) -> float:
    """Seconds from the moment the table's COPY begins, which its records carry as their time,
    to the progress mark, which is written when Kafka has acknowledged every row."""
    init_source(setting, source, table)
    drop_slot(conn, slot_of(source))
    topic = table_topic(source, "public", table)
    with Broker(setting.bootstrap) as broker:
        ends = broker.end_offsets([topic])[topic]
        if sum(ends.values()) != setting.rows:
            raise FatalError(f"topic {topic} holds {sum(ends.values())} of {setting.rows} rows")
        partition = next(partition for partition, end in ends.items() if end)
        (first,) = broker.read(topic, partition, 0, 1)
        mark = last_record(broker, progress_topic(source))
    assert mark is not None, source
    return (mark.timestamp_ms - first.timestamp_ms) / 1000


def _copy(setting: Setting, table: str) -> float:
    """Seconds of ``psql -c 'COPY ... TO STDOUT' | wc -l``, processes' start included."""
    statement = f"copy (select {USUAL.names} from only public.{table}) to stdout"
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
    if psql.returncode or int(counted.stdout) != setting.rows:
        raise FatalError(f"COPY gave {int(counted.stdout)} of {setting.rows} rows")
    return seconds
