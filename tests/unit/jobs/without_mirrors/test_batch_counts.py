"""What a batch amounts to, counted by Spark."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from jobs.delta_engine.driver_rows import spread
from jobs.without_mirrors.batch_counts import account, counts
from tests.support.events.events import kafka_frame, snapshot
from tests.unit.jobs.without_mirrors.test_evaluation import model_of


def test_of_a_large_batch_commits_are_sampled_as_they_are_of_rows_that_are_here(
    spark: SparkSession,
) -> None:
    """It is minutes, where each value of the sample sorts all of them again."""
    rows = spark.range(200_000).selectExpr(
        "false as __deleted",
        "id as __commit_lsn",
        "1L as __ordinal",
        "timestamp_micros(id) as __committed_at",
        "struct('u' as op, false as gap, 1L as records, 7 * id as oldest_us) as __event",
    )
    assert account(rows).commits_us == spread(range(0, 1_400_000, 7))


def test_the_list_of_commits_is_collected_of_a_column(spark: SparkSession) -> None:
    """Not of an expression, which would be interpreted: a tenth of a large batch's CPU."""
    model = model_of("select id from t")
    rows = model.rows(kafka_frame(spark, [snapshot(5, {"id": 1, "body": "", "n": 1})]))
    plan = counts(rows)._jdf.queryExecution().executedPlan().toString()
    collected = re.findall(r"collect_list\((.*?),", plan)
    assert collected
    assert all(re.fullmatch(r"\w+#\d+L", one) for one in collected), plan
