"""Versions of a mirror's rows as Spark reads and writes them: all of them, in one job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from jobs.delta_engine.mirrors import sql
from jobs.delta_engine.mirrors.parquet_files import read_files
from jobs.delta_engine.mirrors.sql import ATTEMPT
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.schema_evolution import quoted
from jobs.spark.faults import fault


def held_versions(
    spark: SparkSession, path: Path, table: DeltaTable, whole: StructType
) -> DataFrame:
    """All versions, under the names they are stored by."""
    files = table.get_add_actions().column("path").to_pylist()
    columns = [StructField(sql.stored(one.name), one.dataType) for one in whole]
    stored = StructType([*columns, StructField(ATTEMPT, LongType())])
    return read_files(spark, [path / file for file in files], stored)


def newest(held: DataFrame, key: Sequence[str], columns: Sequence[Column]) -> DataFrame:
    """The newest version of each row."""
    position = F.struct(COMMIT_LSN, ORDINAL, ATTEMPT)
    chosen = F.max_by(F.struct(*columns), position).alias("newest")
    keys = [F.col(quoted(name)) for name in key]
    return held.groupBy(*keys).agg(chosen).select("newest.*")


def widen(spark: SparkSession, path: Path, whole: StructType) -> None:
    """Give columns the types they have now, all versions kept.
    ``jobs.delta_engine.mirrors.table_record`` has seen that each value stays what it is."""
    held = spark.read.format("delta").load(str(path))
    columns = [
        F.col(quoted(sql.stored(field.name))).cast(field.dataType).alias(sql.stored(field.name))
        for field in whole
    ]
    wide = held.select(*columns, ATTEMPT).write.format("delta").mode("overwrite")
    wide.option("overwriteSchema", "true").save(str(path))


def told_apart(rows: DataFrame, whole: StructType, key: Collection[str], table: str) -> DataFrame:
    """The rows of a snapshot; one whose key is NULL is a fault."""
    message, hint = "the key of a row is null", "choose columns in source.keys that cannot be null"
    null = fault("ViewError", message, F.lit(f"the snapshot of {table}"), hint)

    def column(field: StructField) -> Column:
        held = F.col(quoted(field.name))
        if field.name not in key:
            return held
        return F.coalesce(held, null.cast(field.dataType)).alias(field.name)

    return rows.select(*map(column, whole))
