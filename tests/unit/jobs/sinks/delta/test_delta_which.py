"""Which batches are written into a Delta table without Spark, and which are left to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructType

from jobs.batch.thresholds import FEW_ROWS, ROWS_HERE
from jobs.sinks.delta.small_merge import small_table
from tests.support.events.batches import batch_rows, upsert
from tests.support.views.delta_table import Opened

NAMES = StructType().add("id", LongType()).add("name", StringType())


def none() -> int:
    """How much it is, where nobody should ask."""
    raise AssertionError("asked for")


def columns_of(key: Any, *names: str) -> StructType:
    columns = StructType().add("id", key)
    for name in names:
        columns = columns.add(name, StringType())
    return columns


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (columns_of(LongType()), FEW_ROWS + 1),
        (columns_of(LongType(), "two words"), 1),
        (columns_of(LongType(), "back`tick"), 1),
        (columns_of(DoubleType()), 1),
        (columns_of(BinaryType()), 1),
    ],
    ids=["many", "space", "backtick", "double", "binary"],
)
def test_what_is_left_to_spark(tmp_path: Path, columns: StructType, rows: int) -> None:
    import pyarrow as pa

    write_deltalake(tmp_path, pa.table({"id": pa.array([1], pa.int64())}))
    assert small_table(str(tmp_path), columns_of(LongType()), ("id",), 1, none) is not None
    assert small_table(str(tmp_path), columns, ("id",), rows, none) is None


def test_many_rows_that_are_here_anyhow_are_merged_here_up_to_their_size(tmp_path: Path) -> None:
    import pyarrow as pa

    write_deltalake(tmp_path, pa.table({"id": pa.array([1], pa.int64())}))
    asked = (str(tmp_path), columns_of(LongType()), ("id",))
    assert small_table(*asked, ROWS_HERE, lambda: 1 << 20, ROWS_HERE) is not None
    assert small_table(*asked, ROWS_HERE, lambda: 1 << 30, ROWS_HERE) is None
    assert small_table(*asked, ROWS_HERE + 1, lambda: 1 << 20, ROWS_HERE) is None


def test_the_first_rows_of_a_table_are_written_here_up_to_their_size(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are, as Spark tells what those take that it holds."""
    monkeypatch.setattr("jobs.sinks.delta.small_merge.FEW_BYTES", 200_000)

    def applied(name: str, rows: int) -> set[str]:
        view = Opened(spark, tmp_path / name, NAMES)
        changes = [upsert(1, i + 1, id=i, name="x" * 20) for i in range(rows)]
        held = batch_rows(spark, NAMES, changes).persist()
        try:
            assert held.count() == rows
            view.sink.apply(held, view.feed.batch(1, FEW_ROWS + 1))
        finally:
            held.unpersist()
        assert sum(1 for _ in view.sink.scan()) == rows
        return view.engines(0)

    assert applied("small", 10) == {"delta-rs"}
    assert "delta-rs" not in applied("large", 5_000)


def test_later_rows_are_many_where_there_are_some(spark: SparkSession, tmp_path: Path) -> None:
    view = Opened(spark, tmp_path, NAMES)
    view.small(upsert(1, 1, id=1, name="a"))
    changes = [upsert(2, 1, id=1, name="b"), upsert(2, 2, id=2, name="c")]
    before = view.version
    view.sink.apply(batch_rows(spark, NAMES, changes), view.feed.batch(2, FEW_ROWS + 1))
    assert "delta-rs" not in view.engines(before)


@pytest.mark.parametrize("path", ["hdfs:/v", "abfss://c@a.x.net/v", "gs://bucket/v"])
def test_a_table_elsewhere_is_left_to_spark(path: str) -> None:
    assert small_table(path, NAMES, ("id",), 1, none) is None


def test_a_large_table_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    write_deltalake(tmp_path, pa.table({"id": pa.array(range(100), pa.int64())}))
    monkeypatch.setattr("jobs.sinks.delta.small_merge.SMALL_TABLE_BYTES", 10)
    assert small_table(str(tmp_path), NAMES, ("id",), 1, none) is None


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.columnMapping.mode": "name"},
        {"delta.enableRowTracking": "true"},
        {"delta.enableTypeWidening": "true"},
    ],
    ids=lambda properties: next(iter(properties)).split(".")[1],
)
def test_a_table_with_other_features_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    said: Sequence[str] = [f"'{name}' = '{value}'" for name, value in properties.items()]
    spark.sql(
        f"create table delta.`{tmp_path}` (id bigint, name string) using delta"
        f" tblproperties ({', '.join(said)})"
    )
    assert small_table(str(tmp_path), NAMES, ("id",), 1, none) is None
