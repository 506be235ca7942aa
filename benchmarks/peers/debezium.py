"""Debezium as a peer: one worker that stays warm, tuned, over slots made before the rows.

A JVM is slow until its code is compiled: for the first 300,000 changes it takes two to three times
as long as later. So it first reads a backlog of its own that nobody counts, and every run after
that is a connector in the same JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from benchmarks import process_usage
from benchmarks.capture.consumer import PARTITIONS, opened
from benchmarks.capture.process import await_count, require_exactly, topic_of
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import await_active, create_slot, drop_slot, drop_slot_if_any
from benchmarks.environment import Setting, create_table, drop_table, load
from benchmarks.report.medians import Run
from cdc.kafka.broker import Broker, TopicSpec
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from jobs.spark import jars
from stack import debezium
from stack.debezium import Worker

HEAP: Final = ("-Xms2g", "-Xmx2g")
"""Kafka Connect's own default limit: 81,920 wide rows in its queue do not trouble it."""
TUNED: Final[Mapping[str, str]] = {
    "max.batch.size": "20480",
    "max.queue.size": "81920",
    "poll.interval.ms": "50",
    "producer.override.compression.type": "lz4",
    "producer.override.batch.size": "1048576",
    "producer.override.linger.ms": "5",
}
QUICK: Final[Mapping[str, str]] = {
    **TUNED,
    "poll.interval.ms": "1",
    "producer.override.linger.ms": "0",
}
"""For latency: the waits that serve throughput would be all that is measured."""
SNAPSHOT: Final[Mapping[str, str]] = {
    **TUNED,
    "snapshot.mode": "initial_only",
    "snapshot.max.threads": "1",
}
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_WARM_UP_ROWS: Final = 500_000


@contextmanager
def warm_worker(setting: Setting, conn: Connection, *sets: str) -> Iterator[Worker]:
    """A worker that has read its backlog; ``sets`` are jars that it has besides Debezium's."""
    class_path = [
        jar
        for name in ("debezium", *sets)
        for jar in jars.jars(
            name, lambda done, total: setting.watch("downloading jars", done / total)
        )
    ]
    setting.watch("starting Debezium", 0)
    with debezium.worker(setting.bootstrap, setting.home / "debezium", HEAP, class_path) as worker:
        setting.guardian.end(worker.process.pid)
        _warm_up(setting, conn, worker)
        yield worker


def _warm_up(setting: Setting, conn: Connection, worker: Worker) -> None:
    table = name = "warm_up"
    rows = setting.scaled(_WARM_UP_ROWS, 1_000)
    create_table(conn, USUAL, table)
    with translated("creating a publication"):
        conn.execute(f"create publication {name} for table public.{table}".encode())
    create_slot(conn, name)
    load(setting, conn, USUAL, table, rows, 1_000)
    stream(setting, conn, worker, name, name, table, rows)
    drop_table(conn, table)
    with translated("dropping a publication"):
        conn.execute(f"drop publication {name}".encode())


def stream(
    setting: Setting,
    conn: Connection,
    worker: Worker,
    name: str,
    publication: str,
    table: str,
    rows: int,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Run:
    """All rows, by a connector whose slot ``name`` stands before them, tuned, with these settings
    besides; the slot is dropped.

    The clock runs from the first event in Kafka to the last.
    """
    with streaming(setting, conn, worker, name, publication, table, {**TUNED, **settings}):
        run = _counted(setting, worker, name, table, rows)
    drop_slot(conn, name)
    return run


def snapshot(
    setting: Setting,
    conn: Connection,
    worker: Worker,
    name: str,
    publication: str,
    table: str,
    rows: int,
) -> Run:
    """All rows of the table, by a connector that takes its initial snapshot and no more.

    The clock runs from the first event in Kafka to the last.
    """
    _create_topic(setting, name, table)
    with worker.connector(name, setting.dsn, publication, SNAPSHOT):
        run = _counted(setting, worker, name, table, rows)
    drop_slot_if_any(conn, name)
    return run


def _counted(setting: Setting, worker: Worker, name: str, table: str, rows: int) -> Run:
    """From the first of a connector's events in Kafka to the last."""
    what = "Debezium" if name != table else "Debezium warms up"

    def check() -> None:
        worker.check(name)

    with opened(setting.bootstrap, topic_of(name, table)) as log:
        started, before = await_count(log, 1, check, lambda _part: None)
        cpu_before_s = process_usage.cpu_s(worker.process.pid)
        ended, held = await_count(log, rows, check, lambda part: setting.watch(what, part))
        cpu_s = process_usage.cpu_s(worker.process.pid) - cpu_before_s
        peak_mb = process_usage.peak_rss_mb(worker.process.pid)
    require_exactly(held, rows, name)
    counted = max(1, rows - before)
    return Run(counted / max(ended - started, 0.001), cpu_s * 1e6 / counted, peak_mb)


@contextmanager
def streaming(
    setting: Setting,
    conn: Connection,
    worker: Worker,
    name: str,
    publication: str,
    table: str,
    settings: Mapping[str, str],
) -> Iterator[None]:
    """A connector that reads its slot, into a topic like ours."""
    _create_topic(setting, name, table)
    with worker.connector(name, setting.dsn, publication, settings):
        await_active(conn, name)
        yield


def _create_topic(setting: Setting, name: str, table: str) -> None:
    with Broker(setting.bootstrap) as broker:
        broker.create_topics([TopicSpec(topic_of(name, table), PARTITIONS)])
