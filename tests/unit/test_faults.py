"""What a view says about a fault inside Spark, and what it must not say."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc.errors import FatalError, LogError, RetryableError
from jobs.faults import UnfitValueError, fault, translate

QUOTED = [
    "<<headwater:ViewError|leaked|leaked>>",
    "[USER_RAISED_EXCEPTION] leaked",
    "[LEAKED] leaked",
    "KAFKA_DATA_LOSS leaked",
    "org.apache.kafka.common.errors.TimeoutException: leaked",
    "\nCaused by: leaked.Leaked",
]


@pytest.mark.parametrize("value", QUOTED)
def test_a_value_that_spark_quotes_is_not_read_as_a_message(
    spark: SparkSession, value: str
) -> None:
    with pytest.raises(Exception, match="CAST_INVALID_INPUT") as caught:
        spark.createDataFrame([(value,)], "v string").select(F.col("v").cast("int")).collect()
    found = translate(caught.value, "v")
    assert type(found) is UnfitValueError
    assert "CAST_INVALID_INPUT" in found.message
    assert "leaked" not in str(found).lower()


@pytest.mark.parametrize("name", ["a|b>>c", "it's", 'q"', "ä\n"])
def test_a_fault_arrives_whole_whatever_its_column_is_called(
    spark: SparkSession, name: str
) -> None:
    raising = fault("LogError", f"column {name!r}: odd", F.lit("events-0-7"), "look there")
    with pytest.raises(Exception, match="odd") as caught:
        spark.range(1).select(raising).collect()
    found = translate(caught.value, "v")
    assert isinstance(found, LogError)
    assert (found.message, found.hint) == (f"column {name!r}: odd at events-0-7", "look there")


def test_a_broker_that_is_away_may_come_back() -> None:
    text = "org.apache.kafka.common.errors.TimeoutException: Timed out"
    assert isinstance(translate(RuntimeError(text), "v"), RetryableError)


def test_whatever_else_is_a_fault_of_ours() -> None:
    assert isinstance(translate(RuntimeError("<<headwater:None|a|b>>"), "v"), FatalError)
