"""Tables made without Spark are those that Spark makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import types as T

from cdc.config import Delta
from jobs.sinks.delta.errors import Layout, columns_of, new_properties, table_properties
from jobs.sinks.delta.new_table import create_table
from jobs.sinks.delta.reads import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = Delta(kind="delta", path="unused")
PLAIN = T.StructType(
    [
        T.StructField("id", T.LongType()),
        T.StructField("price", T.DecimalType(12, 2)),
        T.StructField("names", T.ArrayType(T.StringType())),
        T.StructField("of", T.StructType([T.StructField("at", T.TimestampType())])),
    ]
)
LOCAL = T.StructType([*PLAIN, T.StructField("at", T.TimestampNTZType())])


def _protocol(spark: SparkSession, path: Path) -> tuple[Any, ...]:
    detail = DeltaTable.forPath(spark, str(path)).detail().collect()[0]
    return detail.minReaderVersion, detail.minWriterVersion, sorted(detail.tableFeatures)


def _by_spark(
    spark: SparkSession, path: Path, columns: T.StructType, properties: dict[str, str]
) -> None:
    builder = DeltaTable.create(spark).location(str(path)).addColumns(columns)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()


@pytest.mark.parametrize("history", ["", "scd2"])
@pytest.mark.parametrize("columns", [PLAIN, LOCAL], ids=["plain", "ntz"])
def test_a_table_made_here_is_what_spark_makes(
    columns: T.StructType, history: str, spark: SparkSession, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    properties = new_properties(CONFIG, None, columns, ("id",), 3, history)
    create_table(spark, str(here), columns, Layout(), properties)
    assert "CREATE TABLE" in (here / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
    _by_spark(spark, there, columns, properties)
    assert _protocol(spark, here) == _protocol(spark, there)
    assert table_properties(spark, str(here)) == table_properties(spark, str(there))
    assert spark.read.format("delta").load(str(here)).schema == columns
    assert columns_of(spark, str(here)) == columns_of(spark, str(there)) == columns
    create_table(spark, str(here), PLAIN, Layout(), properties)
    assert columns_of(spark, str(here)) == columns, "one that is there stays as it is"


def test_what_is_not_ordinary_is_made_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    for name, columns, how, property_ in (
        ("clusters", PLAIN, Layout(clusters=("id",)), {}),
        ("feed", PLAIN, Layout(), {"delta.enableChangeDataFeed": "true"}),
        ("names", T.StructType([T.StructField("a b", T.LongType())]), Layout(),
         {"delta.columnMapping.mode": "name"}),
    ):  # fmt: skip
        create_table(spark, str(tmp_path / name), columns, how, property_)
        assert spark.read.format("delta").load(str(tmp_path / name)).schema == columns
        (first,) = (tmp_path / name / "_delta_log").glob("*.json")
        assert "Headwater" not in first.read_text(encoding="utf-8")


def test_what_spark_refuses_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    twice = T.StructType([T.StructField("a", T.LongType()), T.StructField("A", T.LongType())])
    with pytest.raises(AnalysisException):
        create_table(spark, str(tmp_path / "twice"), twice, Layout(), {})
    other = tmp_path / "other"
    other.mkdir()
    (other / "note.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(AnalysisException):
        create_table(spark, str(other), PLAIN, Layout(), {})
    assert opened(str(other)) is None
