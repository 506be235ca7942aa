"""Delta tables of views: where they are, what they need to be made, what refusals mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType

from cdc.config import Delta, View
from cdc.errors import HeadwaterError, RetryableError, SinkError, ViewError
from jobs.sinks.batch_writer import until
from jobs.sinks.delta.bucket import fault_of_s3
from jobs.sinks.delta.delta_reader import is_absent, opened, sizes_of
from jobs.sinks.schema_evolution import paths, quoted
from jobs.spark.disk_full import no_room
from jobs.spark.faults import translate
from jobs.spark.object_store import hadoops, is_in_s3

KEY_PROPERTY = "headwater.key"
GENERATION_PROPERTY = "headwater.generation"
"""Which generation the table holds; tables of before there were such hold the first."""
HISTORY_PROPERTY = "headwater.history"
"""As what the table keeps what rows were; without it, it does not."""

SMALL_FILE_BYTES: Final = 32 << 20
"""A file of so much is not joined with others again: the session's setting for OPTIMIZE."""

WIDENING: Final = {"delta.enableTypeWidening": "true"}
"""What a table has from the first time that a column gets a wider type: not every reader of Delta
knows it."""

_CONCURRENT: Final = (
    *(DeltaConcurrentModificationException, ConcurrentWriteException, ConcurrentAppendException),
    *(ConcurrentDeleteReadException, ConcurrentDeleteDeleteException),
    *(ConcurrentTransactionException, MetadataChangedException, ProtocolChangedException),
)
"""In Java the first is above the others; in Python it is one beside them."""
_UNMAPPED = frozenset(" ,;{}()\n\t=")
"""Characters a Parquet column cannot have unless Delta maps names to columns."""
_FOREIGN = frozenset(
    {"DELTA_MISSING_DELTA_TABLE", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"},
)
FOREIGN_FOLDER = "the folder holds something else: move it away, or give the store another path"
_SAID: Final = {
    "deletion_vectors": "delta.enableDeletionVectors",
    "change_data_feed": "delta.enableChangeDataFeed",
}
"""Properties that follow what the configuration says of a view. Where it says nothing, a table
keeps what somebody gave it."""
_T = TypeVar("_T")


class Layout(NamedTuple):
    """The columns that files of a table are told apart by, or ordered by."""

    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


def live_path(config: Delta, view: str) -> str:
    """The table that people read."""
    return f"{hadoops(config.path).rstrip('/')}/{view}"


def apart_path(config: Delta, view: str, generation: int) -> str:
    """Where a generation is until it is live. No view's name has an ``@``."""
    return f"{live_path(config, view)}@{generation}"


def is_table(spark: SparkSession, path: str) -> bool:
    if is_absent(path):
        return False
    return opened(path) is not None or bool(DeltaTable.isDeltaTable(spark, path))


def table_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """What SHOW TBLPROPERTIES says, which does so after a Spark job."""
    if (table := opened(path)) is not None:
        return dict(table.metadata().configuration)
    shown = spark.sql(f"SHOW TBLPROPERTIES delta.{quoted(path)}").collect()
    return {row.key: row.value for row in shown}


def version_of(spark: SparkSession, path: str) -> int:
    """The newest version of a table."""
    if (table := opened(path)) is not None:
        return table.version()
    last = DeltaTable.forPath(spark, path).history(1).select("version")
    return int(last.collect()[0].version)


def columns_of(spark: SparkSession, path: str) -> StructType:
    """The columns of a table."""
    table = opened(path)
    held: StructType
    if table is None:
        held = DeltaTable.forPath(spark, path).toDF().schema
    else:
        held = StructType.fromJson(json.loads(table.schema().to_json()))
    return held


def new_properties(
    config: Delta,
    declared: View | None,
    columns: StructType,
    key: tuple[str, ...],
    generation: int,
    history: str,
) -> dict[str, str]:
    """The properties a view's table is made with."""
    return {
        KEY_PROPERTY: json.dumps(key),
        GENERATION_PROPERTY: str(generation),
        "delta.enableDeletionVectors": str(history == "scd2").lower(),
        **({HISTORY_PROPERTY: history} if history else {}),
        **kept_properties(config, declared),
        **features(columns),
    }


def kept_properties(config: Delta, declared: View | None) -> dict[str, str]:
    """Those that follow the configuration, also of a table that is there already.

    VACUUM takes how long old files stay from the table: whoever calls it keeps what readers and
    a rollback need.
    """
    said = {} if declared is None else declared.model_dump(include=declared.model_fields_set)
    interval = f"interval {config.retention_days} days"
    return {
        "delta.deletedFileRetentionDuration": interval,
        "delta.logRetentionDuration": interval,
        **{
            name: str(said[key]).lower() for key, name in _SAID.items() if said.get(key) is not None
        },
    }


def set_properties(spark: SparkSession, path: str, wanted: dict[str, str]) -> None:
    """Let a table have these properties; one that has them is left alone."""
    held = table_properties(spark, path)
    lacking = {name: value for name, value in wanted.items() if held.get(name) != value}
    if lacking:
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in lacking.items())
        spark.sql(f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ({settings})")


def small_files(spark: SparkSession, path: str, below: int) -> int:
    """How many files of fewer than ``below`` bytes could be joined with another one."""
    if (table := opened(path)) is not None:  # a Spark job for it is seconds on a busy machine
        return max(sum(size < below for size in sizes_of(table)) - 1, 0)
    snapshot = snapshot_of(spark, path)
    files = DataFrame(snapshot.allFiles().toDF(), spark).where(F.col("size") < below)
    counted = files.groupBy(F.to_json("partitionValues")).count()
    return int(counted.agg(F.coalesce(F.sum(F.col("count") - 1), F.lit(0))).collect()[0][0])


def snapshot_of(spark: SparkSession, path: str) -> Any:
    """Delta's own view of a table's newest version."""
    context: Any = spark.sparkContext
    session: Any = spark
    logs = context._jvm.org.apache.spark.sql.delta.DeltaLog
    return logs.forTableWithSnapshot(session._jsparkSession, path)._2()


def layout(view: str, declared: View | None, columns: StructType) -> Layout:
    """How the files of a new table lie. Raises ``ViewError`` for columns that do not do."""
    if declared is None:
        return Layout()
    if fault := declared.layout_fault({f.name: f.dataType.simpleString() for f in columns}):
        raise ViewError(
            f"view {view}: {fault}", "run `headwater check`, which lists the view's columns"
        )
    return Layout(declared.partition_by, declared.cluster_by)


def layout_of(spark: SparkSession, path: str) -> Layout:
    """How the files of a table lie."""
    detail = DeltaTable.forPath(spark, path).detail().collect()[0]
    return Layout(tuple(detail.partitionColumns), tuple(detail.clusteringColumns or ()))


def laid_out(writer: DataFrameWriterV2, how: Layout) -> DataFrameWriterV2:
    """A table that is being made, with its files so."""
    if how.partitions:
        writer.partitionedBy(*(F.col(quoted(name)) for name in how.partitions))
    if how.clusters:
        writer.clusterBy(*map(quoted, how.clusters))
    return writer


def features(columns: StructType) -> dict[str, str]:
    """Properties a table must have before it can have these columns."""
    found = {}
    if any(isinstance(field.dataType, TimestampNTZType) for field in columns):
        found["delta.feature.timestampNtz"] = "supported"
    if any(_UNMAPPED & set(path[-1]) for path in paths(columns)):
        found["delta.columnMapping.mode"] = "name"
    return found


def run(view: str, path: str, retry_s: float, action: Callable[[], _T]) -> _T:
    """Run ``action`` on the table, again for up to ``retry_s`` while others write it."""
    return until(retry_s, lambda: _attempt(view, path, action))


def _attempt(view: str, path: str, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except _CONCURRENT as error:
        raise RetryableError(
            f"view {view}: another writer changed {path} at the same time",
            "let only this view write the table",
        ) from error
    except AnalysisException as error:
        raise refused(view, path, error) from error
    except Py4JJavaError as error:
        raise known_fault(view, path, error) or _failed(view, path, error) from error
    except OSError as error:
        if found := known_fault(view, path, error):
            raise found from error
        if error.errno is None:
            raise
        raise SinkError(
            f"view {view}: Delta table {path}: {error.strerror or error}",
            "check the folder and the rights of this user",
        ) from error


def known_fault(view: str, path: str, error: Exception) -> HeadwaterError | None:
    """What ``error`` is: a disk without room, or S3 that does not answer or refuses; None if it is
    another. The table is as it was: what was written so far is not in its log."""
    where = f"view {view}: Delta table {path}"
    if is_in_s3(path) and (found := fault_of_s3(where, error)):
        return found
    if said := no_room(error):
        return RetryableError(
            f"{where}: no disk space ({said})",
            "free space on its disk and on the disk of Spark's local files",
        )
    return None


def refused(view: str, path: str, error: AnalysisException) -> HeadwaterError:
    """What Delta would not do with a table."""
    condition = error.getCondition() or str(error).strip().splitlines()[0][:200]
    hint = FOREIGN_FOLDER if condition in _FOREIGN else ""
    if condition.startswith("DELTA_DUPLICATE_COLUMNS_FOUND"):
        hint = "rename a column with AS: Delta does not distinguish names by case"
    return ViewError(f"view {view}: Delta rejected {path} ({condition})", hint)


def _failed(view: str, path: str, error: Py4JJavaError) -> HeadwaterError:
    """The innermost cause: file systems and Delta's log say there what is wrong. But Spark's own
    processes and Kafka, from which rows are read again where those are gone, may come back."""
    found = translate(error, view)
    if isinstance(found, RetryableError):
        return found
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = cause.getClass().getSimpleName()
    text = (str(cause.getMessage() or "").strip().splitlines() or [""])[0][:200]
    return SinkError(f"view {view}: Delta table {path}: {name}: {text}")
