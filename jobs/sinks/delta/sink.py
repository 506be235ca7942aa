"""Views in Delta Lake: a table per view at ``<path>/<view>``, kept by MERGE: small batches into
small tables by this process (``jobs.sinks.delta.small_merge``), others by Spark.

A generation that is not live yet has a table of its own (``jobs.sinks.delta.generations``).

The table has the view's columns and ``__commit_lsn`` and ``__ordinal``, the position its row
results from. That makes a write repeatable: an older change does nothing, whatever batch brings it.
A batch that this process writes again is left out by its number already
(``jobs.sinks.delta.transactions``). A deleted row leaves the table for good: a change from before
the delete that arrives in a later batch would bring it back, until the delete that follows it in
the topic comes again too.

Between batches small files are joined and those of old versions deleted
(``jobs.sinks.delta.upkeep``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cdc.lsn import Position
from jobs.batch.thresholds import FEW_ROWS, ROWS_HERE
from jobs.sinks.batch_writer import held_bytes, kept
from jobs.sinks.contract import (
    COMMIT_LSN,
    COMMITTED_AT,
    DELETED,
    ORDINAL,
    UNCHANGED,
    Batch,
    ViewRow,
)
from jobs.sinks.delta.delta_reader import is_plain, named, opened, stream
from jobs.sinks.delta.small_merge import has_unchanged, lacks_rows, merge, null_keys, small_table
from jobs.sinks.delta.spark_merge import bounds, merged, newer
from jobs.sinks.delta.table import DeltaView
from jobs.sinks.delta.transactions import Transaction, confined, numbered
from jobs.sinks.documents import key_text
from jobs.sinks.key_names import Keys, among, are_plain
from jobs.sinks.row_errors import TOLD, unkeyed, unknown_values
from jobs.sinks.rows import Rows, write
from jobs.sinks.schema_evolution import quoted

_FLOATS = (FloatType, DoubleType)
_CONTROL = (StructField(COMMIT_LSN, LongType()), StructField(ORDINAL, LongType()))
_BESIDE = (
    *_CONTROL,
    StructField(DELETED, BooleanType()),
    StructField(UNCHANGED, ArrayType(StringType())),
    StructField(COMMITTED_AT, TimestampType()),
)


class DeltaSink:
    """A ``jobs.sinks.contract.Sink`` over one Delta table: what the rows are."""

    def __init__(self, table: DeltaView) -> None:
        self._of, self._view, self._spark = table, table.view, table.spark
        self._empty = True

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        return self._of.prepare(columns, key, _CONTROL)

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        if self._is_small(batch.keys, partial(held_bytes, rows)):
            self._apply_here(pa.table(rows.toArrow()), self._of.transaction(batch))
        else:
            self._apply_there(rows, self._of.transaction(batch))
        self._of.after_batch()

    def write_rows(self, rows: Rows, batch: Batch) -> None:  # noqa: ARG002
        # Without a number: rows of one batch come in as many parts as keys were dirty.
        write(self._view, rows, self._write_table)
        self._of.after_batch()

    def _write_table(self, rows: pa.Table) -> None:
        if self._is_small(len(rows), lambda: rows.nbytes, ROWS_HERE):
            self._apply_here(rows, None)
        else:
            self._apply_there(self._frame(rows), None)

    def _frame(self, rows: pa.Table) -> DataFrame:
        """Rows for Spark, of the table's own types: Arrow's alone leave it to guess at times."""
        known = {field.name: field.dataType for field in (*self._of.columns, *_BESIDE)}
        fields = [StructField(name, known[name]) for name in rows.column_names]
        return self._spark.createDataFrame(rows, StructType(fields))

    def _is_small(self, rows: int, size: Callable[[], int], most_rows: int = FEW_ROWS) -> bool:
        of = self._of
        return small_table(of.path, of.columns, of.key, rows, size, most_rows) is not None

    def _apply_here(self, whole: pa.Table, transaction: Transaction | None) -> None:
        """By this process."""
        of = self._of
        if not len(whole):
            return
        if lacking := null_keys(whole, of.key):
            raise unkeyed(self._view, lacking)
        if has_unchanged(whole) and of.run(lambda: lacks_rows(of.path, whole, of.key)):
            self._apply_there(self._frame(whole), transaction)  # and names them
            return
        of.run(lambda: merge(self._view, of.path, whole, of.key, transaction))
        self._empty = False

    def _apply_there(self, rows: DataFrame, transaction: Transaction | None) -> None:
        """By Spark."""
        with kept(self._each_once(rows)) as held:
            facts = self._facts(held)
            if not facts["rows"]:
                return
            if facts["unkeyed"]:
                self._of.refuse_unkeyed(held)
            if facts["partial"]:
                self._of.run(lambda: self._check_unchanged(held))
            if self._is_empty():
                self._of.run(lambda: self._append(held, transaction))
            else:
                self._of.run(lambda: self._merge(held, facts, transaction))
        self._empty = False

    def _each_once(self, rows: DataFrame) -> DataFrame:
        """0.0 and -0.0 are two keys of a topic and one of a table: the last of them counts."""
        if not any(isinstance(self._of.columns[name].dataType, _FLOATS) for name in self._of.key):
            return rows
        last = F.max_by(F.struct("*"), F.struct(COMMIT_LSN, ORDINAL)).alias("last")
        return rows.groupBy(*map(quoted, self._of.key)).agg(last).select("last.*")

    def _is_empty(self) -> bool:
        """Asked until it is not: an append to a table that was removed would make it again."""
        if self._empty:
            here = opened(self._of.path)  # Spark reads the log of a table by jobs: two seconds
            if here is None or here.file_uris():
                self._empty = self._of.run(lambda: self._of.table(self._spark).toDF().isEmpty())
        return self._empty

    def truncate(self, before: Position, batch: Batch) -> None:  # noqa: ARG002
        # No transaction id: deleting what is older a second time deletes nothing.
        older = newer(*before, than=(F.col(COMMIT_LSN), F.col(ORDINAL)))
        self._of.run(lambda: self._of.table(self._spark).delete(older))

    def scan(self, keys: Keys | None = None) -> Iterator[ViewRow]:
        of = self._of
        whole = StructType([*of.columns, *_CONTROL])
        if is_plain(whole) and (table := opened(of.path)) is not None:
            plain = keys is not None and are_plain(of.columns, of.key)
            where = _condition(of.key, keys or ()) if plain else "true"
            return among(of.rows_of(stream(table, whole, where)), None if plain else keys)
        return among(of.scanned(of.run(lambda: of.table(self._spark).toDF())), keys)

    def close(self) -> None:
        """The session is the caller's; nothing else is held."""

    def _facts(self, rows: DataFrame) -> Row:
        """What the write has to know of the whole batch, in one pass."""
        keyed = self._of.keyed()
        facts: Row = rows.agg(
            F.count("*").alias("rows"),
            F.count_if(~keyed).alias("unkeyed"),
            F.count_if(F.size(UNCHANGED) > 0).alias("partial"),
            *bounds(self._of.columns, self._of.key),
        ).collect()[0]
        return facts

    def _append(self, rows: DataFrame, transaction: Transaction | None) -> None:
        """The first rows of an empty table: nothing to merge with."""
        names = (*self._of.columns.names, COMMIT_LSN, ORDINAL)
        live = rows.where(~F.col(DELETED)).select(*(F.col(quoted(name)) for name in names))
        writer = live.write.format("delta").mode("append")
        numbered(writer, transaction).save(self._of.path)

    def _check_unchanged(self, rows: DataFrame) -> None:
        """Nothing of a batch is written when the table lacks rows to take values from."""
        keys = [F.col(quoted(name)) for name in self._of.key]
        lacking = rows.where((F.size(UNCHANGED) > 0) & ~F.col(DELETED))
        held = self._of.table(rows.sparkSession).toDF().select(*keys)
        missing = lacking.join(held, list(self._of.key), "left_anti")
        if count := missing.count():
            told = (key_text(self._of.columns, self._of.key), F.col(COMMIT_LSN), F.col(ORDINAL))
            found = missing.select(*told).limit(TOLD).collect()
            of = [(key, Position(lsn, ordinal)) for key, lsn, ordinal in found]
            raise unknown_values(self._view, of, count)

    def _merge(self, rows: DataFrame, facts: Row, transaction: Transaction | None) -> None:
        session, of = rows.sparkSession, self._of
        with confined(session, transaction):
            merged(of.table(session), rows, of.columns, of.key, facts).execute()


def _condition(key: tuple[str, ...], keys: Keys) -> str:
    """Rows ``t`` of plain keys, in DataFusion's SQL."""
    columns = list(zip(*keys, strict=True)) or [() for _ in key]
    # The lists of single values let files be passed over, which pairs do not.
    parts = [
        f"{named(name)} in ({', '.join(_literal(value) for value in dict.fromkeys(values))})"
        for name, values in zip(key, columns, strict=True)
        if values
    ]
    if keys and len(key) > 1:  # as a join: a few thousand ORs are too deep for its stack
        values = ", ".join(f"({', '.join(map(_literal, one))})" for one in keys)
        names = ", ".join(f"k{number}" for number in range(len(key)))
        same = " and ".join(f"k.k{number} = t.{named(name)}" for number, name in enumerate(key))
        parts.append(f"exists (select 1 from (values {values}) as k({names}) where {same})")
    return " and ".join(parts) if keys else "false"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower()
