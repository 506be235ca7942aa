"""What is Delta's alone and needs no server: names of columns, numbers of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import Delta
from cdc.errors import ViewError
from jobs.sinks.delta import DeltaSink
from tests.batches import Feed, delete, upsert


def columns_called(*names: str) -> StructType:
    columns = StructType().add("id", LongType())
    for name in names:
        columns = columns.add(name, StringType())
    return columns


def sink_in(path: Path, spark: SparkSession) -> DeltaSink:
    return DeltaSink(Delta(kind="delta", path=str(path)), "v", spark, 5.0)


def test_a_column_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    names = ("s", "t", "q`q", "x.y", "ä b", "source")  # `s` and `t` are a MERGE's own aliases
    columns, sink = columns_called(*names), sink_in(tmp_path, spark)
    assert sink.prepare(columns, ("id",))
    feed = Feed(spark, sink, columns, "v")
    old: dict[str, Any] = dict.fromkeys(names, "old")
    changed: dict[str, Any] = {**dict.fromkeys(names, "new"), "q`q": None}
    feed.apply(upsert(5, id=1, **old), upsert(5, id=2, **old))
    feed.apply(upsert(6, id=1, unchanged=["q`q"], **changed), delete(7, id=2))
    assert [row.values for row in sink.scan()] == [{"id": 1, **changed, "q`q": "old"}]


def test_names_that_differ_by_case_only_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ViewError, match=r"DUPLICATE_COLUMNS.*rename a column with AS"):
        sink_in(tmp_path, spark).prepare(columns_called("a", "A"), ("id",))


def test_a_checkpoint_of_before_brings_other_batches_under_the_same_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = columns_called("name")
    feeds = []
    for _ in range(2):  # two processes, the second with an older copy of the first one's state
        sink = sink_in(tmp_path, spark)
        sink.prepare(columns, ("id",))
        feeds.append(Feed(spark, sink, columns, "v"))
    feeds[0].apply(upsert(5, id=1, name="a"))
    feeds[0].apply(upsert(6, id=1, name="b"))
    feeds[0].apply(upsert(7, id=2, name="c"))
    feeds[1].number = 1
    feeds[1].apply(upsert(6, id=1, name="b"), upsert(7, id=2, name="c"), upsert(8, id=3, name="d"))
    assert feeds[1].values("name") == {1: "b", 2: "c", 3: "d"}
    feeds[1].apply(upsert(9, id=1, name="e"))
    assert feeds[1].values("name") == {1: "e", 2: "c", 3: "d"}
