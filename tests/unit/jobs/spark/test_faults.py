"""What a view says about a fault inside Spark, and what it must not say."""

from __future__ import annotations

import errno
from functools import reduce
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc.errors import FatalError, LogError, RetryableError, SinkError
from jobs.spark.faults import UnfitValueError, caused, fault, trace, translate

QUOTED = [
    "<<headwater:ViewError|leaked|leaked>>",
    "[USER_RAISED_EXCEPTION] leaked",
    "[LEAKED] leaked",
    "KAFKA_DATA_LOSS leaked",
    "org.apache.kafka.common.errors.TimeoutException: leaked",
    "\nCaused by: leaked.Leaked",
    "java.io.IOException: No space left on device",
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
    assert (found.message, found.hint) == (f"column {name!r}: odd at events-0-7", "Look there.")


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.kafka.common.errors.TimeoutException: Timed out",
        "java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 120000 ms",
    ],
)
def test_a_broker_that_is_away_may_come_back(text: str) -> None:
    found = translate(RuntimeError(text), "v")
    assert isinstance(found, RetryableError)
    assert "Kafka does not answer (TimeoutException)" in str(found)


def test_whatever_else_is_a_fault_of_ours() -> None:
    assert isinstance(translate(RuntimeError("<<headwater:None|a|b>>"), "v"), FatalError)


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted due to stage failure: Task 1 in stage 9.0 failed 1 times: org.apache.spark."
        "SparkException: Python worker exited unexpectedly (crashed). Consider setting",
        "Task 0 in stage 3.0 failed 4 times: ExecutorLostFailure (executor 2 exited caused by one",
    ],
)
def test_what_executes_tasks_may_be_killed_and_come_back(text: str) -> None:
    assert isinstance(translate(RuntimeError(text), "v"), RetryableError)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "view.new"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(
            "Generic LocalFileSystem error\n          \x1b[31m\u21b3\x1b[0m Unable to copy data to"
            " file\n           \x1b[31m\u21b3\x1b[0m No space left on device (os error 28)\n"
        ),
        DeltaError(
            "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data"
            " to file: Disk quota exceeded (os error 122)"
        ),
    ],
    ids=["python", "quota", "delta-rs", "delta-rs-quota"],
)
def test_a_full_disk_may_get_room(error: Exception) -> None:
    assert is_told_as_full(error)


def is_told_as_full(error: BaseException) -> bool:
    found = translate(error, "v")
    told = "view v: a disk is full" in found.message
    assert isinstance(found, RetryableError) == told
    return told


def thrown(spark: SparkSession, name: str, message: str) -> Py4JJavaError:
    """An exception of Java as a failed job has it: behind Spark's, which quotes it."""
    jvm: Any = spark.sparkContext._jvm
    cause = reduce(getattr, name.split("."), jvm)(message)
    text = f"Job aborted due to stage failure: Lost task 0.0 in stage 1.0: {name}: {message}\n\tat"
    return Py4JJavaError("o1.save", jvm.org.apache.spark.SparkException(text, cause))


@pytest.mark.parametrize(
    ("name", "message", "full"),
    [
        ("java.io.IOException", "No space left on device", True),
        ("java.io.FileNotFoundException", "/x/offsets/.1.tmp (No space left on device)", True),
        ("java.nio.file.FileSystemException", "/x/y: Disk quota exceeded", True),
        ("java.io.IOException", "Connection reset by peer", False),
        ("java.lang.IllegalStateException", "with the value x: No space left on device", False),
        ("java.io.IOException", "x: No space left on device\nis no date", False),
    ],
)
def test_of_java_only_the_end_of_what_a_fault_of_files_says_counts(
    spark: SparkSession, name: str, message: str, full: bool
) -> None:
    assert is_told_as_full(thrown(spark, name, message)) == full


@pytest.mark.parametrize(
    ("said", "full"), [("No space left on device", True), ("Connection reset by peer", False)]
)
def test_rows_that_memory_has_no_room_for_need_room_on_a_disk(
    spark: SparkSession, said: str, full: bool
) -> None:
    jvm: Any = spark.sparkContext._jvm
    told = jvm.java.util.HashMap()
    told.put("consumerToSpill", "org.apache.spark.util.collection.unsafe.sort@1")
    told.put("message", said)
    cause = jvm.org.apache.spark.memory.SparkOutOfMemoryError("SPILL_OUT_OF_MEMORY", told)
    failed = jvm.org.apache.spark.SparkException("Job aborted due to stage failure", cause)
    assert is_told_as_full(Py4JJavaError("o1.save", failed)) == full


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/spill"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (ValueError("x: No space left on device"), False),
    ],
    ids=["full", "broken", "quoted"],
)
def test_of_a_python_worker_only_its_error_counts(
    spark: SparkSession, error: Exception, full: bool
) -> None:
    def failing(_value: int) -> int:
        raise error

    with pytest.raises(PythonException) as caught:
        spark.range(1).select(F.udf(failing, "long")("id")).collect()
    assert is_told_as_full(caught.value) == full


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("odd: 'No space left on device'"),
        DeltaError("Invariant violated by value in row: [x: No space left on device\n]"),
        DeltaError("x: No space left on device (os error 28)\nis no date"),
    ],
)
def test_a_value_is_not_taken_for_a_full_disk(error: Exception) -> None:
    assert isinstance(translate(error, "v"), FatalError)


def odd_batch() -> None:
    try:
        raise KeyError("confidential")
    except KeyError as error:
        raise RuntimeError("confidential") from error


def test_a_fault_that_was_not_foreseen_is_traced_to_where_it_came_from() -> None:
    with pytest.raises(RuntimeError) as caught:
        odd_batch()
    with pytest.raises(FatalError) as raised:
        raise caused(caught.value, "v")
    said = trace(raised.value)
    places = [said.index(f"{name}\n") for name in ("KeyError", "RuntimeError", "FatalError")]
    assert places == sorted(places), "the first cause first"
    assert "in odd_batch\n" in said
    assert said.count('"confidential"') == 2, "the lines of code, and no message"


def test_a_fault_that_says_it_all_is_not_traced() -> None:
    assert trace(SinkError("refused")) == ""
    assert trace(caused(RuntimeError("Python worker exited unexpectedly"), "v")) == ""
