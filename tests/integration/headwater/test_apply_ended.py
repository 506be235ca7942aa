"""A view whose stream ends though nobody asked the view to: it goes on, or says why it cannot."""

from __future__ import annotations

import resource
import shutil
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType
from structlog.testing import capture_logs

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError
from jobs.generations.view_state import view_directory
from jobs.sinks.contract import Batch
from jobs.spark.checkpoint import committed_batch
from jobs.without_mirrors.views import apply_views
from tests.support.events.written_topics import V1, V2, Log, row, v1, v2
from tests.support.views.parkings import lacking
from tests.support.views.recording_sink import RecordingSink
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALLEST_FILE = 64
"""Less than what Spark notes of a batch before it begins."""
TOO_SMALL = 16
"""Less than what it notes of a query before that starts."""
_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"


def told(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line["error"] for line in lines if line["event"] == "view_interrupted"]


class Running:
    """The view ``v``, continuously applied, with one row in it."""

    def __init__(self, spark: SparkSession, log: Log, state: Path, most: int = 1000) -> None:
        self.log, self.spark = log, spark
        self.sink = RecordingSink()
        self.failed: dict[str, HeadwaterError] = {}
        self.stopping = threading.Event()
        self.config = config = Config.model_validate(
            {
                "source": {"name": log.source, "dsn": "dbname=unused", "tables": ["public.t"]},
                "kafka": {"bootstrap_servers": log.bootstrap},
                "stores": {"memory": {"kind": "redis", "url": "redis://localhost:1/0"}},
                "views": {"v": {"store": "memory", "key": ["id"], "sql": "select * from t"}},
                "apply": {
                    "state": str(state),
                    "retry_s": 30,
                    "max_offsets_per_trigger": most,
                },
            }
        )
        self.checkpoint = view_directory(str(state), log.source, "v") / "checkpoint"

        def run() -> None:
            self.failed.update(
                apply_views(spark, config, ["v"], self.stopping, sinks={"v": self.sink})
            )

        self.thread = threading.Thread(target=run)
        log.describe(V1)
        log.write(v1(1, 1, row(1, "a")))
        self.thread.start()
        self.wait_for(1)
        wait_until(lambda: committed_batch(self.checkpoint) == 0, "the batch to be committed")

    def wait_for(self, id_: int) -> None:
        def there() -> bool:
            assert self.thread.is_alive(), f"the view ended: {self.failed}"
            return id_ in self.sink.values()

        wait_until(there, f"row {id_}")

    def end(self) -> None:
        self.stopping.set()
        self.thread.join(120)
        assert not self.thread.is_alive()


@pytest.fixture
def running(spark: SparkSession, kafka: str, source_name: str, tmp_path: Path) -> Running:
    return Running(spark, Log(kafka, source_name), tmp_path)


def test_a_view_goes_on_when_its_stream_was_stopped_by_something_else(running: Running) -> None:
    try:
        (query,) = (one for one in running.spark.streams.active if one.name.startswith("v "))
        query.stop()
        running.log.write(v1(2, 1, row(2, "b")))
        running.wait_for(2)
    finally:
        running.end()
    assert running.failed == {}


def test_a_stream_that_fails_between_batches_says_why(running: Running) -> None:
    """Here because a second one writes to its checkpoint."""
    offsets = running.checkpoint / "offsets"
    shutil.copy(offsets / "0", offsets / "1")
    running.log.write(v1(2, 1, row(2, "b")))
    try:
        running.thread.join(120)
        assert not running.thread.is_alive()
    finally:
        running.end()
    assert "CONCURRENT" in str(running.failed["v"])


def test_a_store_that_is_emptied_is_not_made_anew_for_a_column_that_comes(
    running: Running,
) -> None:
    """By whoever prepares it for the column: it would have what comes from here on alone."""
    running.sink.columns.clear()  # its place is gone, so that the next ``prepare`` makes one
    running.log.describe(V2)
    running.log.write(v2(2, 1, row(2, "b", n=1)))
    try:
        running.thread.join(120)
        assert not running.thread.is_alive()
    finally:
        running.end()
    assert 2 not in running.sink.values()
    said = "store memory no longer holds the changes that were applied to it, or was replaced"
    assert said in str(running.failed["v"])
    again = apply_views(running.spark, running.config, ["v"], threading.Event(), True,
                        {"v": running.sink})  # fmt: skip
    assert said in str(again["v"])


def test_a_checkpoint_without_room_is_waited_for(running: Running) -> None:
    gateway: Any = running.spark.sparkContext._gateway
    pid = gateway.proc.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    with capture_logs() as lines:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (SMALLEST_FILE, before[1]))
        try:
            running.log.write(v1(2, 1, row(2, "b")))
            wait_until(lambda: told(lines), "the fault to be told")
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        try:
            running.wait_for(2)
        finally:
            running.end()
    assert running.failed == {}
    (said, *_) = told(lines)
    assert said.startswith("view v: a disk is full (File too large). Free space on")


def test_a_view_that_finds_no_room_as_it_starts_waits_for_it(running: Running) -> None:
    running.end()
    shutil.rmtree(running.checkpoint)
    running.log.write(v1(2, 1, row(2, "b")))
    gateway: Any = running.spark.sparkContext._gateway
    pid = gateway.proc.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def run() -> None:
        running.failed.update(
            apply_views(running.spark, running.config, ["v"], threading.Event(), True,
                        {"v": running.sink})
        )  # fmt: skip

    thread = threading.Thread(target=run)
    with capture_logs() as lines:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (TOO_SMALL, before[1]))
        try:
            thread.start()
            wait_until(lambda: told(lines) or not thread.is_alive(), "the fault to be told")
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        thread.join(120)
    assert (thread.is_alive(), running.failed) == (False, {})
    assert 2 in running.sink.values()
    assert told(lines)[0].startswith("view v: a disk is full (File too large)")


def test_a_view_that_was_killed_before_its_first_batch_was_planned_begins(running: Running) -> None:
    """Spark has noted where its source begins, and no batch."""
    running.end()
    for batches in ("offsets", "commits"):
        shutil.rmtree(running.checkpoint / batches)
    assert (running.checkpoint / "sources" / "0" / "0").exists()
    again, stopping = RecordingSink(), threading.Event()
    failed = apply_views(running.spark, running.config, ["v"], stopping, True, {"v": again})
    assert failed == {}
    assert list(again.values()) == [1]


def connections(address: str) -> int:
    """How many this process has to a port; Java, a process of its own, has others."""
    port = int(address.rpartition(":")[2])
    inodes = set()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(one.readlink()).removeprefix("socket:[").removesuffix("]"))
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]
    ]
    return sum(int(line[2].rpartition(":")[2], 16) == port and line[9] in inodes for line in lines)


def test_a_view_that_is_tried_again_holds_no_more_connections_and_none_at_its_end(
    running: Running,
) -> None:
    running.end()
    held: list[int] = []
    before = connections(running.config.kafka.bootstrap_servers)

    def away(_batch: Batch) -> None:
        held.append(connections(running.config.kafka.bootstrap_servers))
        if len(held) < 5:
            raise RetryableError("the store is away")

    sink = RecordingSink(away)
    sink.prepare(StructType(), ())  # it is not made just now
    running.log.write(v1(2, 1, row(2, "b")), lacking(3, 3))
    stopping = threading.Event()
    failed = apply_views(running.spark, running.config, ["v"], stopping, True, {"v": sink})
    assert failed == {}
    assert list(sink.values()) == [2]
    assert len(set(held[:4])) == 1, held
    assert connections(running.config.kafka.bootstrap_servers) == before


def test_a_batch_that_is_abandoned_releases_what_it_held_when_it_ends(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.end()
    monkeypatch.setattr("jobs.without_mirrors.query._DRAIN_S", 0.1)
    given = running.spark.conf.get(_STOP_TIMEOUT)
    running.spark.conf.set(_STOP_TIMEOUT, "1s")
    begun, go_on, stopping = (threading.Event() for _ in range(3))
    before = connections(running.config.kafka.bootstrap_servers)

    def blocked(_batch: Batch) -> None:
        begun.set()
        assert go_on.wait(120)

    sink = RecordingSink(blocked)
    sink.prepare(StructType(), ())
    running.log.write(v1(2, 1, row(2, "b")))
    thread = threading.Thread(
        target=apply_views,
        args=(running.spark, running.config, ["v"], stopping, False, {"v": sink}),
    )
    thread.start()
    try:
        assert begun.wait(120)
        stopping.set()
        thread.join(120)
        assert not thread.is_alive()
        assert connections(running.config.kafka.bootstrap_servers) > before
    finally:
        go_on.set()
        running.spark.conf.set(_STOP_TIMEOUT, given or "60s")
    wait_until(
        lambda: connections(running.config.kafka.bootstrap_servers) == before,
        "its connections to be released",
    )
