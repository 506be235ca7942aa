"""Delta tables of views: where they are, what they need to be made, what refusals mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, TimestampNTZType

from cdc.config import Delta
from cdc.errors import HeadwaterError, RetryableError, SinkError, ViewError
from jobs.sinks.schema import quoted
from jobs.sinks.writing import until

KEY_PROPERTY = "headwater.key"
GENERATION_PROPERTY = "headwater.generation"
"""Which generation the table holds; tables of before there were such hold the first."""

_UNMAPPED = frozenset(" ,;{}()\n\t=")
"""Characters a Parquet column cannot have unless Delta maps names to columns."""
_FOREIGN = frozenset(
    {"DELTA_MISSING_DELTA_TABLE", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"},
)
_FOREIGN_FOLDER = "the folder holds something else: move it away, or give the store another path"
_T = TypeVar("_T")


def live_path(config: Delta, view: str) -> str:
    """The table that people read."""
    return f"{config.path.rstrip('/')}/{view}"


def apart_path(config: Delta, view: str, generation: int) -> str:
    """Where a generation is until it is live. No view's name has an ``@``."""
    return f"{live_path(config, view)}@{generation}"


def is_table(spark: SparkSession, path: str) -> bool:
    return bool(DeltaTable.isDeltaTable(spark, path))


def table_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """What SHOW TBLPROPERTIES says."""
    shown = spark.sql(f"SHOW TBLPROPERTIES delta.{quoted(path)}").collect()
    return {row.key: row.value for row in shown}


def generation_at(spark: SparkSession, path: str) -> int | None:
    """The generation that a table holds, None if there is none."""
    if not is_table(spark, path):
        return None
    return int(table_properties(spark, path).get(GENERATION_PROPERTY, 1))


def new_properties(columns: StructType, key: tuple[str, ...], generation: int) -> dict[str, str]:
    """The properties a view's table is made with."""
    return {
        KEY_PROPERTY: json.dumps(key),
        GENERATION_PROPERTY: str(generation),
        "delta.enableDeletionVectors": "true",
        **features(columns),
    }


def features(columns: StructType) -> dict[str, str]:
    """Properties a table must have before it can have these columns."""
    found = {}
    if any(isinstance(field.dataType, TimestampNTZType) for field in columns):
        found["delta.feature.timestampNtz"] = "supported"
    if any(_UNMAPPED & set(field.name) for field in columns):
        found["delta.columnMapping.mode"] = "name"
    return found


def run(view: str, path: str, retry_s: float, action: Callable[[], _T]) -> _T:
    """Run ``action`` on the table, again for up to ``retry_s`` while others write it."""
    return until(retry_s, lambda: _attempt(view, path, action))


def _attempt(view: str, path: str, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except DeltaConcurrentModificationException as error:
        raise RetryableError(
            f"view {view}: another writer changed {path} at the same time",
            "let only this view write the table",
        ) from error
    except AnalysisException as error:
        raise refused(view, path, error) from error
    except Py4JJavaError as error:
        raise _failed(view, path, error) from error


def refused(view: str, path: str, error: AnalysisException) -> HeadwaterError:
    """What Delta would not do with a table."""
    condition = error.getCondition() or str(error).strip().splitlines()[0][:200]
    hint = _FOREIGN_FOLDER if condition in _FOREIGN else ""
    if condition.startswith("DELTA_DUPLICATE_COLUMNS_FOUND"):
        hint = "Delta takes names that differ by case only for one: rename a column with AS"
    return ViewError(f"view {view}: Delta refused {path} ({condition})", hint)


def _failed(view: str, path: str, error: Py4JJavaError) -> HeadwaterError:
    """The innermost cause: file systems and Delta's log say there what is wrong."""
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = cause.getClass().getSimpleName()
    text = (str(cause.getMessage() or "").strip().splitlines() or [""])[0][:200]
    return SinkError(f"view {view}: Delta table {path}: {name}: {text}")
