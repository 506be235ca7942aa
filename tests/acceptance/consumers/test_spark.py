"""Spark's ``from_json`` with the schema that Debezium's events have in everybody's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.acceptance.consumers.conftest import Publish
from tests.support.consumers import workload
from tests.support.consumers.spark_table import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_sparks_from_json_reads_tables_that_equal_the_source(
    spark: SparkSession, publish: Publish
) -> None:
    published = publish({})
    for name in workload.NAMES:
        found = table(spark, published, name)
        assert found == workload.values(published.source, name), name
    expected = workload.values(published.source, "extremes")
    assert str(table(spark, published, "extremes")) == str(expected)
    assert table(spark, published, "articles") == workload.PLACEHOLDER
    assert table(spark, published, "visits") == workload.NOT_TRUNCATED
