"""Faults found inside Spark's executors, and how they reach the driver whole.

An expression that meets a value it must not pass on raises with a marked message; the driver finds
the mark in whatever Spark wrapped around it. So a check costs no job of its own. Messages name
the view, the column and the record, never a value.

What Spark says may quote values, so that any text can stand in it: only a mark of this process is
one of ours, and only the first of Spark's conditions is its own.
"""

from __future__ import annotations

import re
import secrets
import traceback

from pyspark.errors import ArithmeticException, DateTimeException, PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc.errors import FatalError, HeadwaterError, LogError, RetryableError, ViewError
from jobs.spark.disk_full import no_room

UNKNOWN_SCHEMA = "UnknownSchema"
_TOKEN = secrets.token_hex(8)
_MARK = re.compile(rf"<{_TOKEN}:(\w+)\x1f(.*?)\x1f(.*?)\x1f>", re.DOTALL)


class UnfitValueError(ViewError):
    """A value of one row that the view cannot hold, or that its SQL cannot compute with."""


class ForeignRecordError(LogError):
    """A record that is no event of Headwater."""


class UnknownSchemaError(LogError):
    """An event names a schema that was not in ``<source>.__schemas`` when it was last read."""


UNFIT_VALUE, FOREIGN_RECORD = "UnfitValue", "ForeignRecord"
_KINDS: dict[str, type[HeadwaterError]] = {
    "ViewError": ViewError,
    "LogError": LogError,
    UNFIT_VALUE: UnfitValueError,
    FOREIGN_RECORD: ForeignRecordError,
    UNKNOWN_SCHEMA: UnknownSchemaError,
}
POISON = (UnfitValueError, ForeignRecordError, UnknownSchemaError)
"""Faults of single events: the others can be applied without them."""


def fault(kind: str, message: str, record: Column, hint: str = "") -> Column:
    """An expression that raises. ``record`` is ``topic-partition-offset`` as text."""
    return F.raise_error(
        F.concat(F.lit(f"<{_TOKEN}:{kind}\x1f{message} at "), record, F.lit(f"\x1f{hint}\x1f>"))
    )


def translate(error: BaseException, view: str) -> HeadwaterError:
    """One of our errors for whatever a batch or a query failed with."""
    return error if isinstance(error, HeadwaterError) else _translated(error, f"view {view}")


def caused(error: BaseException, view: str) -> HeadwaterError:
    """As ``translate``, for one that is to be raised elsewhere: it keeps what it comes from."""
    found = translate(error, view)
    if found is not error:
        found.__cause__ = error
    return found


def stream_error(error: BaseException) -> HeadwaterError:
    """As ``caused``, of what a stream of all tables failed with."""
    if isinstance(error, HeadwaterError):
        return error
    found = _of_task(str(error)) or _translated(error, "the stream")
    found.__cause__ = error
    return found


def _of_task(text: str) -> HeadwaterError | None:
    """The error of ours that a task in Python ended with, if it was one."""
    if (found := _IN_TASK.search(text)) is None:
        return None
    kinds: dict[str, type[HeadwaterError]] = {"Log": LogError, "Retryable": RetryableError}
    return kinds[found[1]](found[2])


_IN_TASK = re.compile(r"^cdc\.errors\.(Log|Retryable)Error: (.*)$", re.MULTILINE)


def trace(error: BaseException) -> str:
    """Where what was not foreseen came from, the first cause first: stacks and the names of what
    was raised, without messages, which may hold values. Empty for a fault that says it all."""
    if isinstance(error, HeadwaterError) and type(error) is not FatalError:
        return ""
    chain: list[BaseException] = []
    last: BaseException | None = error
    while last is not None and last not in chain:
        chain.append(last)
        last = last.__cause__
    return "".join(
        "".join([*traceback.format_tb(one.__traceback__), f"{type(one).__qualname__}\n"])
        for one in reversed(chain)
        if one.__traceback__ is not None
    )


def _translated(error: BaseException, where: str) -> HeadwaterError:
    found = _MARK.search(str(error))
    if found:
        kind, message, hint = found.groups()
        return _KINDS[kind](message, hint)
    text = str(error)
    condition = _condition(error) if isinstance(error, PySparkException) else ""
    thrown, state = _thrown(error)
    condition = condition or thrown
    if _is_data(error) or state.startswith(_DATA) or condition in _HINTS:
        said = condition or type(error).__name__
        return UnfitValueError(f"{where}: Spark stopped with {said}", _HINTS.get(condition, ""))
    if _GONE.search(text):
        return LogError(
            f"{where}: Kafka no longer holds what the checkpoint reads next",
            "rebuild the view: retention removed the records, or the topic was recreated",
        )
    if _ADDED in text:
        return RetryableError(
            f"{where}: a topic got more partitions while the stream started",
            "wait: it starts again",
        )
    if _SIGNED_OUT in text:
        return RetryableError(
            f"{where}: Kafka refuses the login",
            "check kafka.sasl_username and kafka.sasl_password",
        )
    if away := _AWAY.search(text):
        said = away[1] or away[2]
        return RetryableError(
            f"{where}: Kafka does not answer ({said})", "check that Kafka is running"
        )
    if _LOST.search(text):
        return RetryableError(
            f"{where}: a Spark executor ended or lost its connection",
            "check whether it was killed, for example for lack of memory",
        )
    if said := no_room(error):
        return RetryableError(
            f"{where}: a disk is full ({said})",
            "free space on the disks of apply.state and of Spark's local files",
        )
    if condition:  # Spark's own text may quote values: its name for the condition does not
        return ViewError(f"{where}: Spark stopped with {condition}")
    if classes := list(dict.fromkeys(_JAVA.findall(text))):
        return FatalError(f"{where}: Spark stopped with {', from '.join(classes[:3])}")
    return FatalError(f"{where}: {type(error).__name__}: {_first_line(error)}")


def _is_data(error: BaseException) -> bool:
    """Whether an expression met a value that it does not take: SQLSTATE's class 22 is that of data
    exceptions. Java's own, as of an overflow, have none."""
    if isinstance(error, ArithmeticException | DateTimeException):
        return True
    return isinstance(error, PySparkException) and (error.getSqlState() or "").startswith(_DATA)


def _thrown(error: BaseException) -> tuple[str, str]:
    """Condition and SQLSTATE of what PySpark did not take for Spark's: another thread's failure, as
    of a broadcast, is wrapped in Java's own."""
    cause = getattr(error, "java_exception", None)
    for _ in range(_DEEPEST):
        if cause is None:
            break
        is_sparks = str(cause.getClass().getName()).startswith("org.apache.spark.Spark")
        if is_sparks and (state := cause.getSqlState()):
            return str(cause.getCondition() or ""), str(state)
        cause = cause.getCause()
    return "", ""


_DATA = "22"
_DEEPEST = 10
_JAVA = re.compile(r"^(?:Caused)?(?: by)?: ((?:[a-z]\w*\.)+\w+)", re.MULTILINE)
"""The classes of a Java exception and its causes, in its text; the messages may quote values."""


# As Spark plans a batch, or as a task reads it.
_GONE = re.compile(r"KAFKA_DATA_LOSS|kafka\.clients\.consumer\.OffsetOutOfRangeException")
# What a topic has is asked for before Spark is told where to begin, and once more by Spark.
_ADDED = "you must specify all TopicPartitions"
# Kafka's clients inside Spark: a broker that restarts, an election, a cut connection.
_SIGNED_OUT = "org.apache.kafka.common.errors.SaslAuthenticationException"
"""Kafka's Java client keeps the password that it was started with: the next stream has that of
now."""
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.(?:errors\.)?("
    r"(?:Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|"
    r"CoordinatorNotAvailable|UnknownServer|Kafka)Exception)"
    r"|java\.util\.concurrent\.(TimeoutException): Cannot fetch record"
)
# What runs tasks was killed: an executor, or a Python process beside it. With a local master Spark
# never tries again, on a cluster three times.
_LOST = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back"
    r"|ExecutorLostFailure"
)
_HINTS = {
    "DIVIDE_BY_ZERO": "guard the division in the view's SQL with NULLIF",
    "REMAINDER_BY_ZERO": "guard the remainder in the view's SQL with NULLIF",
    "CAST_INVALID_INPUT": "correct the cast or JSON operator of the SQL that a value does not fit",
    "CAST_OVERFLOW": "correct the cast of the SQL that a value does not fit",
    "ARITHMETIC_OVERFLOW": "cast to a wider type in the view's SQL",
    "NUMERIC_VALUE_OUT_OF_RANGE": "cast to a wider numeric in the view's SQL",
}


def _condition(error: PySparkException) -> str:
    """Spark's name of the condition inside its wrappers, e.g. ``DIVIDE_BY_ZERO``."""
    for name in _NAME.findall(str(error)):
        if name not in _WRAPPERS:
            return str(name)
    return str(error.getCondition() or "")


_NAME = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_]+)*\]")
_WRAPPERS = {
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "TASK_WRITE_FAILED",
    "FAILED_EXECUTE_UDF",
}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else ""
