"""Delta tables that keep what rows were: ``history = "log"`` and ``history = "scd2"``.

``log`` is only appended to: a row for each change of a row of the view. ``scd2`` has a row for each
version of it, from the change that made it up to the one that ended it. A batch is one commit.
What comes again is found by its position, so nothing stands there twice; what comes late finds its
place.

Small batches are written by this process (``delta_history_small``), others by Spark
(``delta_history_spark``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cdc.events.codes import DELETE, TRUNCATE
from cdc.lsn import Position
from jobs.sinks.batch_writer import held_bytes
from jobs.sinks.contract import (
    COMMIT_LSN,
    COMMITTED_AT,
    DELETED,
    OP,
    ORDINAL,
    UNCHANGED,
    Batch,
    ViewRow,
)
from jobs.sinks.delta.history.arrow_order import as_columns
from jobs.sinks.delta.history.changes import with_op
from jobs.sinks.delta.history.columns import CONTROL, CURRENT
from jobs.sinks.delta.history.small_batch import SmallHistory
from jobs.sinks.delta.history.spark_batch import SparkHistory
from jobs.sinks.delta.table import DeltaView
from jobs.sinks.key_names import Keys, among

_BESIDE: tuple[tuple[str, DataType], ...] = (
    (DELETED, BooleanType()), (COMMIT_LSN, LongType()), (ORDINAL, LongType()),
    (UNCHANGED, ArrayType(StringType())), (COMMITTED_AT, TimestampType()), (OP, StringType()),
)  # fmt: skip


class DeltaHistory:
    """A ``jobs.sinks.contract.Sink`` that is given every change."""

    def __init__(self, table: DeltaView) -> None:
        self._of, self._is_log = table, table.history == "log"
        self._here, self._by_spark = SmallHistory(table), SparkHistory(table)

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        return self._of.prepare(columns, key, CONTROL[self._of.history])

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        size = partial(held_bytes, rows)
        if self._here.takes(batch.keys, size) and self._write_here(pa.table(rows.toArrow()), batch):
            self._of.after_batch()
            return
        self._by_spark.write(rows, self._of.transaction(batch))
        self._of.after_batch()

    def write_changes(self, changes: pa.Table, batch: Batch) -> None:
        """As ``apply``, of changes that are at hand: the view's columns, in Arrow's types for them,
        and those of ``jobs.sinks``. Columns that they lack are null."""
        if not (
            self._here.takes(len(changes), lambda: changes.nbytes)
            and self._write_here(changes, batch)
        ):
            self._by_spark.write(self._frame(changes), self._of.transaction(batch))
        self._of.after_batch()

    def _write_here(self, changes: pa.Table, batch: Batch) -> bool:
        return self._of.run(lambda: self._here.write(changes, self._of.transaction(batch)))

    def _frame(self, changes: pa.Table) -> DataFrame:
        """Changes for Spark."""
        fields = [StructField(field.name, field.dataType) for field in self._of.columns]
        columns = StructType([*fields, *(StructField(*one) for one in _BESIDE)])
        whole = as_columns(to_arrow_schema(columns, timezone="UTC"), with_op(changes))
        return self._of.spark.createDataFrame(whole, columns)

    def changes(self) -> DataFrame:
        """All that it has, as the table has it; of ``history = "log"`` every change."""
        found: DataFrame = self._of.run(lambda: self._of.table(self._of.spark).toDF())
        return found

    def truncate(self, before: Position, batch: Batch) -> None:
        """Without a time, for who has no event: else TRUNCATE comes with the rows of ``apply``."""
        control = {
            DELETED: [True], COMMIT_LSN: [before.commit_lsn], ORDINAL: [before.ordinal],
            UNCHANGED: [[]], COMMITTED_AT: [None], OP: [TRUNCATE],
        }  # fmt: skip
        self.write_changes(pa.table(control), batch)

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        return among(self._current(), keys)

    def _current(self) -> Iterator[ViewRow]:
        if (here := self._here.current()) is not None:
            yield from self._of.rows_of(here)
            return
        table = self.changes()
        if not self._is_log:
            yield from self._of.scanned(table.where(CURRENT))
            return
        newest = self._by_spark.newest(table)
        yield from self._of.scanned(newest.where(~F.col(OP).isin(DELETE, TRUNCATE)))

    def close(self) -> None:
        """The session is the caller's; nothing else is held."""
