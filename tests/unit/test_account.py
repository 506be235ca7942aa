"""What a batch amounts to: counted by Spark, and of rows at hand."""

from __future__ import annotations

import random
import re

from pyspark.sql import SparkSession

from jobs.account import SAMPLE, account, counts
from jobs.schema import PLACEHOLDER
from jobs.small.at_hand import account_at_hand, spread
from tests.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.unit.test_applying import model_of


def test_rows_at_hand_amount_to_what_spark_counts(spark: SparkSession) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    model = model_of("select id, body, n from t where n is null or n > 1")
    batches: list[list[Record]] = [
        [],
        [truncate(7, 1)],
        [snapshot(5, {"id": i, "body": "", "n": None}) for i in range(3)],
        [event(i, 1, {"id": i, "body": "", "n": 9}) for i in range(1, SAMPLE + 50)],
        *([one for _ in range(30) for one in _records(drawn)] for _ in range(6)),
    ]
    for records in batches:
        rows = model.rows(kafka_frame(spark, records))
        assert account_at_hand(rows.toArrow()) == account(rows)


def test_of_a_large_batch_commits_are_sampled_as_they_are_of_rows_at_hand(
    spark: SparkSession,
) -> None:
    """It is minutes, where each value of the sample sorts all of them again."""
    rows = spark.range(200_000).selectExpr(
        "false as __deleted",
        "id as __commit_lsn",
        "1L as __ordinal",
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


def _records(drawn: random.Random) -> list[Record]:
    lsn, ordinal = drawn.randrange(1, 1000), drawn.randrange(1, 4)
    row = {
        "id": drawn.randrange(12),
        "body": drawn.choice(["", "b", None]),
        "n": drawn.randrange(4),
    }
    kind = drawn.choice("cudrtp")
    if kind == "t":
        return [truncate(lsn, ordinal)]
    if kind == "r":
        return [snapshot(lsn, row)]
    if kind == "d":
        return list(delete(lsn, ordinal, row))
    if kind == "p":
        return [event(lsn, ordinal, {**row, "body": PLACEHOLDER}, "u", unchanged=["body"])]
    return [event(lsn, ordinal, row, kind)]
