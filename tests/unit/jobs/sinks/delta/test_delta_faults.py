"""What befalls the table of a view in Delta while the view is kept: removed, no room to write."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import Delta
from cdc.errors import RetryableError, SinkError
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.stores import open_sink
from tests.support.events.batches import Change, Feed, batch_rows, upsert

COLUMNS = StructType().add("id", LongType()).add("name", StringType())
LARGEST_FILE = 16 << 10
"""More than Delta's log and what pytest writes meanwhile, less than a file of ``LONG``."""
LONG = os.urandom(20 << 10).hex()


def opened(spark: SparkSession, home: Path, history: str = "") -> Feed:
    """The view ``v``, which has no rows yet."""
    sink = open_sink(Delta(kind="delta", path=str(home)), "v", spark, 0, None, None, history)
    assert sink.prepare(COLUMNS, ("id",))
    return Feed(spark, sink, COLUMNS, "v")


def batch(feed: Feed, *changes: Change) -> DataFrame:
    return batch_rows(feed.spark, feed.columns, changes)


def write(feed: Feed, number: int, rows: DataFrame, by_spark: bool = False) -> None:
    """By this process, or by Spark as when many keys were touched."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jobs.sinks.delta.small_merge.FEW_BYTES", 0)
        feed.sink.apply(rows, feed.batch(number, FEW_ROWS + 1 if by_spark else 2))


@contextmanager
def no_room(spark: SparkSession) -> Iterator[None]:
    """A file that may not grow is, but for its name, what a full disk is: to this process, and to
    Spark's."""
    gateway: Any = spark.sparkContext._gateway
    processes = (0, gateway.proc.pid)
    limits = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes]
    for pid, (_, hard) in zip(processes, limits, strict=True):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, hard))
    try:
        yield
    finally:
        for pid, limit in zip(processes, limits, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


@pytest.mark.parametrize("history", ["", "log"])
def test_an_empty_table_that_was_removed_is_not_made_by_its_first_rows(
    history: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = opened(spark, tmp_path, history)
    rows = batch(feed, upsert(5, id=1, name="a"))

    def away(*_: object) -> None:
        raise RetryableError("away")

    if not history:  # it has been seen empty
        with monkeypatch.context() as patched:
            patched.setattr("jobs.sinks.delta.sink.numbered", away)
            with pytest.raises(RetryableError, match="away"):
                write(feed, 1, rows, by_spark=True)
    shutil.rmtree(tmp_path / "v")
    again = " --new-history" if history else ""
    said = rf"{tmp_path}/v was removed. Run `headwater view rebuild v{again}`"
    with pytest.raises(SinkError, match=said):
        write(feed, 1, rows, by_spark=True)
    assert not (tmp_path / "v").exists()


def test_without_room_a_batch_is_to_be_tried_again_and_the_table_is_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = opened(spark, tmp_path)
    # Java unpacks libraries when it first writes: for that there has to be room.
    write(feed, 1, batch(feed, upsert(5, id=1, name="a")), by_spark=True)
    rows = batch(feed, upsert(6, id=1, name="b"), upsert(6, 2, id=2, name=LONG))
    more = batch(feed, upsert(7, id=1, name=LONG), upsert(7, 2, id=3, name="c"))
    said = rf"view v: Delta table {tmp_path}/v: no disk space \(File too large\). Free space on"
    with no_room(spark):
        for by_spark in (False, True):
            with pytest.raises(RetryableError, match=said):
                write(feed, 2, rows, by_spark)
        assert feed.values("name") == {1: "a"}
    write(feed, 2, rows, by_spark=True)
    with no_room(spark), pytest.raises(RetryableError, match=said):
        write(feed, 3, more)
    assert feed.values("name") == {1: "b", 2: LONG}
    write(feed, 3, more)
    read = spark.read.format("delta").load(f"{tmp_path}/v").collect()
    whole = {1: LONG, 2: LONG, 3: "c"}
    assert {row["id"]: row["name"] for row in read} == feed.values("name") == whole
    shutil.rmtree(tmp_path / "v")
    with pytest.raises(SinkError, match=r"v was removed\. Run `headwater view rebuild v`"):
        write(feed, 4, batch(feed, upsert(8, id=4, name="d")))
    assert not (tmp_path / "v").exists()


def test_a_row_that_the_table_refuses_is_no_full_disk_whatever_it_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta quotes it, each value at the end of a line."""
    feed = opened(spark, tmp_path)
    write(feed, 1, batch(feed, upsert(5, id=1, name="a")), by_spark=True)
    spark.sql(f"alter table delta.`{tmp_path}/v` add constraint short check (length(name) < 9)")
    rows = batch(feed, upsert(6, id=2, name="x: No space left on device"))
    with pytest.raises(SinkError, match="DELTA_VIOLATE_CONSTRAINT"):
        write(feed, 2, rows, by_spark=True)
