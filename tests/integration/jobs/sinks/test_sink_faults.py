"""What each server can refuse, and the one line that says so."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import Delta
from cdc.errors import SinkError, ViewError
from jobs.sinks.delta.generations import DeltaGenerations
from jobs.sinks.delta.ownership import refuse_taken
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, upsert
from tests.support.servers.proxy import proxied
from tests.support.servers.stores import LSN, OpenFeed, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = StructType().add("id", LongType()).add("name", StringType())
SECRET = "hunter2"


def test_a_slow_store_is_waited_for_however_long_it_takes(
    served: Store, open_feed: OpenFeed
) -> None:
    """How long a store may be away says nothing of how long it may take."""
    field = "dsn" if served.kind == "postgres" else "url"
    with proxied(getattr(served, field)) as (url, proxy):
        feed = open_feed(served.model_copy(update={field: url}), retry_s=0.2)
        proxy.slow(0.2)
        began = time.monotonic()
        feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
        assert time.monotonic() - began > 0.4
        proxy.release()
        assert feed.values("name") == {1: "a", 2: "b"}


def test_a_folder_that_is_not_a_delta_table_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "notes.txt").write_text("mine")
    _taken(spark, Delta(kind="delta", path=str(tmp_path)), "holds something else")
    assert [one.name for one in (tmp_path / "v").iterdir()] == ["notes.txt"]


def test_a_table_whose_deletion_was_killed_is_dropped_by_the_next_try(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files go in any order, the log perhaps first: what is left is no table then."""
    lake = Delta(kind="delta", path=str(tmp_path))
    with closing(open_sink(lake, "v", spark)) as sink:
        sink.prepare(COLUMNS, ("id",))
        Feed(spark, sink, COLUMNS, "v").apply(upsert(8, id=1, name="a"))

    def killed(_: DeltaGenerations, path: str) -> None:
        if Path(path).exists():
            shutil.rmtree(Path(path) / "_delta_log")
            raise InterruptedError

    generations = open_generations(lake, "v", spark)
    with monkeypatch.context() as patched:
        patched.setattr(DeltaGenerations, "_delete", killed)
        with pytest.raises(InterruptedError):
            generations.drop(1)
    assert list(tmp_path.rglob("*.parquet")), "some of it is there"
    generations.drop(1)
    assert list(tmp_path.iterdir()) == []


def _taken(spark: SparkSession, lake: Delta, said: str) -> None:
    """Whatever would write there raises it."""
    generations = open_generations(lake, "v", spark)
    for attempt in (
        lambda: open_sink(lake, "v", spark).prepare(COLUMNS, ("id",)),
        generations.live,
        lambda: generations.switch(2),
        lambda: generations.drop(1),
        lambda: refuse_taken(lake, "v"),
    ):
        with pytest.raises(ViewError, match=said):
            attempt()


def test_a_delta_path_that_is_a_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("mine")
    sink = open_sink(Delta(kind="delta", path=str(tmp_path / "lake")), "v", spark)
    with pytest.raises(SinkError, match=r"Delta table .*/lake/v: "):
        sink.prepare(COLUMNS, ("id",))


def test_a_foreign_delta_table_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "v"))
    _taken(spark, Delta(kind="delta", path=str(tmp_path)), "not belong to this view")
    assert spark.read.format("delta").load(str(tmp_path / "v")).count() == 3


def test_settings_of_a_merge_do_not_stay_in_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = open_sink(Delta(kind="delta", path=str(tmp_path)), "v", spark)
    sink.prepare(COLUMNS, ("id",))
    feed = Feed(spark, sink, COLUMNS, "v")
    feed.apply(upsert(8, id=1, name="a"))
    feed.apply(upsert(9, id=1, name="b"))
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", "none") == "none"
