"""A view whose stream ends though nobody asked the view to: it goes on, or says why it cannot."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.config import Config
from cdc.errors import HeadwaterError
from jobs.apply import apply_views
from jobs.offsets import committed_batch
from jobs.state import view_directory
from tests.recording import RecordingSink
from tests.waiting import wait_until
from tests.written import V1, Log, row, v1

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
