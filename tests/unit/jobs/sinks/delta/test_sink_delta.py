"""What is Delta's alone and needs no server: columns, numbers of batches, files."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)
from structlog.testing import capture_logs

from cdc.config import Delta, View
from cdc.errors import ViewError
from jobs.sinks.delta.sink import DeltaSink
from jobs.sinks.delta.table import DeltaView
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, batch_rows, delete, upsert


def columns_called(*names: str) -> StructType:
    columns = StructType().add("id", LongType())
    for name in names:
        columns = columns.add(name, StringType())
    return columns


def sink_in(path: Path, spark: SparkSession) -> DeltaSink:
    return delta_sink(Delta(kind="delta", path=str(path)), spark)


def delta_sink(config: Delta, spark: SparkSession) -> DeltaSink:
    return DeltaSink(DeltaView(config, "v", spark, 5.0))


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
    with pytest.raises(ViewError, match=r"for one name\. Rename one with AS"):
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


def files_of(spark: SparkSession, path: Path, where: str = "true") -> list[Path]:
    """The files of a view that some rows of it are in."""
    rows = spark.read.format("delta").load(str(path / "v")).where(where)
    names = {str(row[0]) for row in rows.select(F.input_file_name()).collect()}
    return [path / "v" / unquote(name).partition("/v/")[2] for name in names]


def test_small_files_are_joined_between_batches_and_a_fault_there_is_only_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = Delta(kind="delta", path=str(tmp_path), optimize_batches=4, small_files=2)
    columns = columns_called("name")
    sink = delta_sink(config, spark)
    sink.prepare(columns, ("id",))
    feed = Feed(spark, sink, columns, "v")
    for i in range(3):
        feed.apply(upsert(5 + i, id=i, name=f"n{i}"))
    assert len(files_of(spark, tmp_path)) == 3
    with capture_logs() as lines:
        feed.replay(feed.number, upsert(9, id=2, name="a number that is taken"))
    assert [line["event"] for line in lines] == ["table_compacted", "table_vacuumed"]
    assert len(files_of(spark, tmp_path)) == 1
    feed.replay(1, upsert(5, id=0, name="what is older"))
    assert feed.values("name") == {0: "n0", 1: "n1", 2: "n2"}
    feed.apply(upsert(9, id=10, name="n10"))
    (lost,) = files_of(spark, tmp_path, "id = 10")
    away = lost.rename(tmp_path / "away")  # OPTIMIZE reads it; batches with other keys do not
    with capture_logs() as lines:
        for i in (20, 30):
            feed.apply(upsert(i, id=i, name=f"n{i}"))
    assert [line["event"] for line in lines] == ["upkeep_failed"]
    away.rename(lost)
    assert set(feed.values("name")) == {0, 1, 2, 10, 20, 30}


def test_columns_get_wider_types_in_place_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    narrow = (
        StructType()
        .add("id", IntegerType())
        .add("small", ShortType())
        .add("price", DecimalType(6, 2))
        .add("ratio", FloatType())
    )
    wide = (
        StructType()
        .add("id", LongType())
        .add("small", IntegerType())
        .add("price", DecimalType(12, 4))
        .add("ratio", DoubleType())
        .add("name", StringType())
    )
    sink = sink_in(tmp_path, spark)
    sink.prepare(narrow, ("id",))
    Feed(spark, sink, narrow, "v").apply(
        upsert(5, id=1, small=7, price=Decimal("12.50"), ratio=0.5),
        upsert(5, 2, id=2, small=8, price=Decimal("1.25"), ratio=0.25),
    )
    sink.prepare(wide, ("id",))
    feed = Feed(spark, sink, wide, "v")
    feed.number = 1
    large: dict[str, Any] = {
        "small": 1 << 20,
        "price": Decimal("12345678.1234"),
        "ratio": 0.1,
        "name": "n",
    }
    feed.apply(upsert(6, id=1 << 40, **large), upsert(6, 2, id=2, **large))
    assert feed.rows()[(2,)].values == {"id": 2, **large}
    first = {"small": 7, "price": Decimal("12.5000"), "ratio": 0.5, "name": None}
    assert feed.rows()[(1,)].values == {"id": 1, **first}
    assert len(feed.rows()) == 3
    with pytest.raises(ViewError) as refused:
        sink_in(tmp_path, spark).prepare(narrow, ("id",))
    said = str(refused.value)
    assert "price decimal(12,4), now decimal(6,2)" in said
    assert "id bigint, now int; small int, now smallint; price" in said
    assert "name string" not in said


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"partition_by": ["day"]}, marks=pytest.mark.exhaustive),
        {"cluster_by": ["day"]},
    ],
    ids=["partition", "cluster"],
)
def test_files_lie_as_declared_and_a_batch_reads_those_of_its_keys(
    settings: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    declared = View(store="s", key=("id",), sql="-", change_data_feed=True, **settings)
    config = Delta(kind="delta", path=str(tmp_path))
    columns = StructType().add("id", LongType()).add("day", DateType()).add("name", StringType())
    sink = DeltaSink(DeltaView(config, "v", spark, 5.0, None, declared))
    sink.prepare(columns, ("id",))
    feed = Feed(spark, sink, columns, "v")
    monday, tuesday = date(2026, 11, 23), date(2026, 11, 24)
    feed.apply(*(upsert(5, i, id=i, day=monday, name="a") for i in range(1, 4)))
    feed.apply(*(upsert(6, i, id=i, day=monday, name="b") for i in range(100, 104)))
    lost = files_of(spark, tmp_path, "id >= 100")
    away = [file.rename(tmp_path / file.name) for file in lost]
    feed.apply(upsert(7, id=1, day=tuesday, name="moved"), delete(7, 2, id=2))
    for file, place in zip(away, lost, strict=True):
        file.rename(place)
    assert feed.values("day") == dict.fromkeys((3, *range(100, 104)), monday) | {1: tuesday}
    detail = DeltaTable.forPath(spark, str(tmp_path / "v")).detail().collect()[0]
    assert [*detail.partitionColumns, *(detail.clusteringColumns or [])] == ["day"]
    changes = spark.read.format("delta").option("readChangeFeed", "true")
    found = changes.option("startingVersion", 3).load(str(tmp_path / "v"))
    assert sorted(row["_change_type"] for row in found.collect()) == [
        "delete", "update_postimage", "update_preimage",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"partition_by": ["date(at)"]}, r"partition_by names date\(at\), which is no column"),
        ({"partition_by": ["tags"]}, "partition_by names tags, which is array<string>"),
        ({"partition_by": ["name"]}, "partition_by names name, which is text.*cluster_by takes it"),
        ({"cluster_by": ["ok"]}, "cluster_by names ok, which is boolean"),
    ],
)
def test_columns_that_files_cannot_lie_by_are_refused(
    settings: dict[str, Any], fault: str, spark: SparkSession, tmp_path: Path
) -> None:
    declared = View(store="s", key=("id",), sql="-", **settings)
    table = DeltaView(Delta(kind="delta", path=str(tmp_path)), "v", spark, 5.0, None, declared)
    columns = StructType().add("id", LongType()).add("tags", ArrayType(StringType()))
    columns.add("name", StringType()).add("ok", BooleanType())
    with pytest.raises(ViewError, match=f"view v: its {fault}.*headwater check"):
        DeltaSink(table).prepare(columns, ("id",))


@pytest.mark.parametrize("history", ["", pytest.param("log", marks=pytest.mark.exhaustive), "scd2"])
def test_a_generation_is_filled_and_shown_with_all_that_was_declared(
    history: str, spark: SparkSession, tmp_path: Path
) -> None:
    config, columns = Delta(kind="delta", path=str(tmp_path)), columns_called("name")
    declared = View(store="s", key=("id",), sql="-", partition_by=("id",), change_data_feed=True)
    DeltaSink(DeltaView(config, "v", spark, 5.0)).prepare(columns, ("id",))
    stored = open_generations(config, "v", spark, 5.0, declared, history)
    rows = batch_rows(spark, columns, [upsert(9, 0, id=1, name="a"), upsert(9, 0, id=2, name="b")])
    stored.load(2, rows, columns, ("id",))
    stored.switch(2)
    sink = open_sink(config, "v", spark, 5.0, 2, declared, history)
    assert not sink.prepare(columns, ("id",))
    feed = Feed(spark, sink, columns, "v")
    feed.apply(upsert(10, id=1, name="c"), delete(11, id=2))
    assert feed.values("name") == {1: "c"}
    table = spark.read.format("delta").load(str(tmp_path / "v"))
    assert table.count() == {"": 1, "log": 4, "scd2": 3}[history]
    if history == "log":
        assert sorted(row["__op"] for row in table.collect()) == ["d", "r", "r", "r"]
    detail = DeltaTable.forPath(spark, str(tmp_path / "v")).detail().collect()[0]
    assert detail.partitionColumns == ["id"]
    assert detail.properties["delta.enableChangeDataFeed"] == "true"
    assert detail.properties["delta.deletedFileRetentionDuration"] == "interval 7 days"


@pytest.mark.parametrize("first", [0.0, pytest.param(-0.0, marks=pytest.mark.exhaustive)])
def test_zeros_of_both_signs_are_one_key(spark: SparkSession, tmp_path: Path, first: float) -> None:
    """A topic has two keys of them, so that both may be in one batch."""
    columns = StructType().add("k", DoubleType()).add("s", StringType()).add("v", StringType())
    sink = sink_in(tmp_path, spark)
    sink.prepare(columns, ("k", "s"))
    feed = Feed(spark, sink, columns, "v")
    feed.apply(upsert(1, 1, k=first, s="a", v="old"), upsert(1, 2, k=math.nan, s="a", v="old"))
    moved = [delete(2, 1, k=first, s="a"), upsert(2, 2, k=-first, s="a", v="new")]
    feed.apply(*moved, upsert(2, 3, k=math.nan, s="a", v="new"))
    assert {row.key: row.values["v"] for row in sink.scan() if row.key[0] == 0} == {(0, "a"): "new"}
    feed.apply(upsert(3, 1, k=first, s="a", v="again"), delete(3, 2, k=-first, s="a"))
    (row,) = sink.scan()
    assert (str(row.key[0]), row.values["v"]) == ("nan", "new")
