"""What a store is filled with, of a snapshot's records."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.sinks.contract import COMMIT_LSN
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.snapshot_rows import loaded_rows
from tests.support.events.events import Record, kafka_frame, snapshot, truncate
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, INT8, TEXT

TABLE = TableVersion(
    "a" * 16,
    "public",
    "t",
    (TableColumn("id", INT8), TableColumn("body", TEXT), TableColumn("n", INT4)),
    ("id",),
)


def loaded(
    spark: SparkSession, records: list[Record], clean: bool, sql: str = "select * from t"
) -> DataFrame:
    view = resolve(parse_view("v", "s", ["id"], sql), TABLE)
    model = Model(view, {TABLE.schema_id: TABLE})
    return loaded_rows(model, kafka_frame(spark, records), clean)


def row(lsn: int, id: int, n: int, body: str = "") -> Record:
    return snapshot(lsn, {"id": id, "body": body, "n": n}, TABLE.schema_id)


def ids(rows: DataFrame) -> dict[Any, int]:
    return {found["id"]: found[COMMIT_LSN] for found in rows.collect()}


@pytest.mark.parametrize(
    "sql", ["select * from t", "select id, upper(body) as b from t where n > 1"]
)
def test_the_json_of_a_clean_snapshot_is_read_once(spark: SparkSession, sql: str) -> None:
    rows = loaded(spark, [row(8, 1, 1), row(8, 2, 2)], True, sql)
    jvm: Any = rows
    plan = jvm._jdf.queryExecution().executedPlan().toString()
    assert plan.count("from_json(") == 1, plan


def test_a_clean_snapshot_is_its_rows_without_those_the_view_leaves_out(
    spark: SparkSession,
) -> None:
    records = [row(8, 1, 1), row(8, 2, 2), row(8, 3, 3)]
    assert ids(loaded(spark, records, True)) == {1: 8, 2: 8, 3: 8}
    assert ids(loaded(spark, records, True, "select id, n from t where n > 1")) == {2: 8, 3: 8}


def test_a_value_that_reads_as_the_placeholder_is_a_value_in_a_snapshot(
    spark: SparkSession,
) -> None:
    text = "__debezium_unavailable_value"
    (found,) = loaded(spark, [row(8, 1, 1, text)], True).collect()
    assert found["body"] == text


def test_of_a_row_read_twice_the_later_one_counts_and_none_from_before_a_truncate(
    spark: SparkSession,
) -> None:
    again = [row(8, 1, 1), row(16, 1, 2), row(8, 2, 1)]
    assert ids(loaded(spark, again, False)) == {1: 16, 2: 8}
    anew = [*again, truncate(15, 0, TABLE.schema_id)]
    assert ids(loaded(spark, anew, False)) == {1: 16}


def test_a_value_that_reads_as_a_truncate_is_none(spark: SparkSession) -> None:
    records = [row(8, 1, 1, '"op":"t"'), row(16, 2, 2)]
    assert ids(loaded(spark, records, False)) == {1: 8, 2: 16}
