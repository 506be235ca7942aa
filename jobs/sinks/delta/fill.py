"""A new Delta table filled with finished rows: by delta-rs, as they come, in one commit.

A table that delta-rs does not know how to write, as it is partitioned or clustered or somewhere
else, is filled by Spark, many rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from cdc.errors import SinkError
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.delta.delta_reader import first_line, is_plain, opened
from jobs.sinks.delta.errors import known_fault
from jobs.sinks.delta.history.arrow_order import as_columns
from jobs.sinks.delta.small_merge import null_keys
from jobs.sinks.row_errors import unkeyed
from jobs.sinks.rows import Rows, unfit_rows

POSITION: Final = (StructField(COMMIT_LSN, LongType()), StructField(ORDINAL, LongType()))
_FRAME_ROWS: Final = 500_000
"""Rows that Spark is given together: it plans a job for each time."""


def fill(
    spark: SparkSession,
    view: str,
    path: str,
    columns: StructType,
    key: Iterable[str],
    rows: Iterable[Rows],
) -> None:
    """Append live rows to an empty table that has the columns and their position."""
    schema = to_arrow_schema(columns, timezone="UTC")
    tables = _checked(view, schema, tuple(key), rows)
    table = opened(path) if is_plain(columns) else None
    if table is not None:
        _append(view, path, table, schema, tables)
        return
    for part in _gathered(tables):
        spark.createDataFrame(part).write.format("delta").mode("append").save(path)


def _checked(
    view: str, schema: pa.Schema, key: tuple[str, ...], rows: Iterable[Rows]
) -> Iterator[pa.Table]:
    for some in rows:
        if some.unfit:
            raise unfit_rows(view, some.unfit)
        if lacking := null_keys(some.written, key):
            raise unkeyed(view, lacking)
        yield as_columns(schema, some.written)


def _append(
    view: str, path: str, table: DeltaTable, schema: pa.Schema, tables: Iterator[pa.Table]
) -> None:
    faults: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for some in tables:
                yield from some.to_batches()
        except Exception as error:  # which would come back as one of Arrow's, without its kind
            faults.append(error)
            raise

    try:
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(schema, batches()),
            mode="append",
            post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
        )
    except Exception as error:
        if faults:
            raise faults[0] from None
        if not isinstance(error, (DeltaError, OSError)):
            raise
        if found := known_fault(view, path, error):
            raise found from error
        raise SinkError(f"view {view}: Delta table {path}: {first_line(error)}") from error


def _gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    some: list[pa.Table] = []
    for table in tables:
        some.append(table)
        if sum(map(len, some)) >= _FRAME_ROWS:
            yield pa.concat_tables(some)
            some = []
    if some:
        yield pa.concat_tables(some)
