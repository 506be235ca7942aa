"""What a snapshot costs the stream beside it, and what a kill of a snapshot costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.capture.latency import percentile, waits
from benchmarks.capture.process import capturing, slot_of, topic_of
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import (
    Setting,
    create_table,
    drop_table,
    headwater,
    init_source,
    load,
    settle,
)
from cdc.errors import FatalError
from cdc.kafka.broker import Broker
from cdc.source.postgres import Connection
from snapshots.status import Standing, snapshots
from stack.child_process import Process, tail

_ALONE, _BESIDE, _READ = _TABLES = "orders_alone", "orders_beside", "orders_read"
_TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.02
_KILLED_AT: Final = 0.9


def measure_beside(setting: Setting) -> dict[str, float]:
    """The stream's p99 with snapshots at the default rate over that without; rows read twice."""
    source = "beside"
    with setting.connect() as conn:
        for table in _TABLES:
            create_table(conn, USUAL, table)
        load(setting, conn, USUAL, _READ, setting.rows, setting.rows)
        settle(conn, _READ)
        init_source(setting, source, "orders_*", "--no-snapshot")
        with capturing(setting, source):
            alone, beside = _p99s(setting, source)
        share = _read_again(setting, conn, source)
        drop_slot(conn, slot_of(source))
        for table in _TABLES:
            drop_table(conn, table)
    return {
        "stream_p99_alone_ms": alone,
        "stream_p99_during_snapshot_ms": beside,
        "stream_p99_during_snapshot_ratio": beside / alone,
        "snapshot_resume_reread_share": share,
    }


def _p99s(setting: Setting, source: str) -> tuple[float, float]:
    alone, _ = waits(setting, _ALONE, topic_of(source, _ALONE), "the stream alone")
    with _snapshots(setting, source):
        beside, _ = waits(setting, _BESIDE, topic_of(source, _BESIDE), "beside a snapshot")
    return percentile(alone, 99), percentile(beside, 99)


@contextmanager
def _snapshots(setting: Setting, source: str) -> Iterator[None]:
    """Snapshots of the large table, one after the other; the last one is let run to its end."""
    enough = threading.Event()
    failed: list[FatalError] = []

    def repeat() -> None:
        while not enough.is_set():
            try:
                _snapshot(setting, source, "start", f"public.{_READ}", "--json")
            except FatalError as error:
                failed.append(error)
                return

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
    if failed:
        raise failed[0]


def _snapshot(setting: Setting, source: str, *arguments: str) -> None:
    log = f"snapshot-{source}"
    headwater(setting, source, "snapshot", *arguments, log=log, timeout_s=_TIMEOUT_S)


def _read_again(setting: Setting, conn: Connection, source: str) -> float:
    """Rows that are read twice when a snapshot is killed at nine tenths, as a part of all."""
    config = str(setting.config(source))
    arguments = ["--config", config, "snapshot", "start", f"public.{_READ}", "--rate", "none"]
    started = Process(
        "headwater snapshot", arguments, setting.log("snapshot-killed"), setting.guardian
    )
    known = len(snapshots(conn, source))
    setting.watch("a snapshot that is killed", 0)
    started.start()
    try:
        with Broker(setting.bootstrap) as broker:
            killed = _when_in_kafka(conn, broker, source, known, _KILLED_AT * setting.rows, started)
    finally:
        started.kill()
    (killed,) = snapshots(conn, source, killed.id)
    if killed.complete:
        raise FatalError("the snapshot was done before it was killed", "take more rows")
    _snapshot(setting, source, "resume", str(killed.id))
    with Broker(setting.bootstrap) as broker:
        records = _records(broker, killed)
    return records / setting.rows - 1


def _when_in_kafka(
    conn: Connection, broker: Broker, source: str, known: int, rows: float, started: Process
) -> Standing:
    """The snapshot that began, once so many of its rows are in Kafka, recorded or not."""
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        found = snapshots(conn, source)
        if len(found) > known and _records(broker, found[-1]) >= rows:
            return found[-1]
        started.check()
        time.sleep(_POLL_S)
    raise FatalError(f"the snapshot is slow\n{tail(started.log)}")


def _records(broker: Broker, found: Standing) -> int:
    topics = [table.topic for table in found.tables if table.topic]
    if not broker.partitions(topics):
        return 0
    return sum(sum(ends.values()) for ends in broker.end_offsets(topics).values())
