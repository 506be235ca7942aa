"""Tables made without Spark are those that Spark makes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import types as T

from cdc.config import Delta
from cdc.errors import RetryableError, SinkError
from jobs.sinks.delta import delta_reader
from jobs.sinks.delta.delta_reader import opened
from jobs.sinks.delta.errors import Layout, columns_of, new_properties, run, table_properties
from jobs.sinks.delta.new_table import create_table

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
    (made,) = deltalake.DeltaTable(str(here)).history()
    assert made["operation"] == "CREATE TABLE"
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


def test_what_a_killed_process_left_of_making_one_is_gone_on_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "killed" / "_delta_log"
    log.mkdir(parents=True)
    (log / f".{0:020}.json.1.tmp").write_text("{", encoding="utf-8")
    create_table(spark, str(tmp_path / "killed"), PLAIN, Layout(), {})
    assert spark.read.format("delta").load(str(tmp_path / "killed")).schema == PLAIN


def test_properties_that_the_session_gives_to_new_tables_are_theirs(
    spark: SparkSession, tmp_path: Path
) -> None:
    setting = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(setting, "true")
    try:
        create_table(spark, str(tmp_path / "fed"), PLAIN, Layout(), {})
    finally:
        spark.conf.unset(setting)
    assert table_properties(spark, str(tmp_path / "fed"))["delta.enableChangeDataFeed"] == "true"


def test_paths_without_a_scheme_are_where_spark_has_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    assert delta_reader.is_local(str(tmp_path))
    hadoop.set("fs.defaultFS", "hdfs://nowhere:9000")
    delta_reader._default_scheme.cache_clear()
    try:
        assert not delta_reader.is_local(str(tmp_path))
        assert not delta_reader.is_absent(str(tmp_path))
        assert delta_reader.is_local(f"file://{tmp_path}")
    finally:
        hadoop.set("fs.defaultFS", "file:///")
        delta_reader._default_scheme.cache_clear()


def test_a_disk_without_room_and_rights_that_lack_are_told(tmp_path: Path) -> None:
    def failing(number: int) -> Callable[[], None]:
        def action() -> None:
            raise OSError(number, os.strerror(number))

        return action

    with pytest.raises(RetryableError, match="no disk space"):
        run("v", str(tmp_path), 0.0, failing(errno.ENOSPC))
    with pytest.raises(SinkError, match="Permission denied"):
        run("v", str(tmp_path), 0.0, failing(errno.EACCES))
