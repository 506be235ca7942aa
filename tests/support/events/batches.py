"""Batches as ``Sink.apply`` takes them, written down row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cdc.lsn import Position
from jobs.sinks.contract import (
    COMMIT_LSN,
    COMMITTED_AT,
    DELETED,
    ORDINAL,
    UNCHANGED,
    Batch,
    Sink,
    ViewRow,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONTROL = [
    StructField(DELETED, BooleanType(), False),
    StructField(COMMIT_LSN, LongType(), False),
    StructField(ORDINAL, LongType(), False),
    StructField(UNCHANGED, ArrayType(StringType())),
    StructField(COMMITTED_AT, TimestampType()),
]
_COMMITTED_AT = datetime(2026, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    """One touched key. ``values`` of a delete are its key columns."""

    values: dict[str, Any]
    lsn: int
    ordinal: int = 1
    deleted: bool = False
    unchanged: tuple[str, ...] = ()


def with_control(columns: StructType) -> StructType:
    """The columns of a batch of a view."""
    return StructType([*(StructField(f.name, f.dataType) for f in columns), *_CONTROL])


def batch_rows(spark: SparkSession, columns: StructType, changes: Iterable[Change]) -> DataFrame:
    """The DataFrame of some changes."""
    rows = [
        (
            *(change.values.get(name) for name in columns.names),
            change.deleted,
            change.lsn,
            change.ordinal,
            list(change.unchanged),
            _COMMITTED_AT,
        )
        for change in changes
    ]
    return spark.createDataFrame(rows, with_control(columns), verifySchema=False)


class Feed:
    """Applies changes to one sink; every call is the next batch of one checkpoint."""

    def __init__(self, spark: SparkSession, sink: Sink, columns: StructType, view: str) -> None:
        self.spark, self.sink, self.columns, self.view = spark, sink, columns, view
        self.generation, self.number = "generation-1", 0

    def batch(self, number: int, keys: int) -> Batch:
        return Batch(self.view, self.generation, number, keys)

    def apply(self, *changes: Change) -> int:
        """Apply a batch and give its number."""
        self.number += 1
        self.replay(self.number, *changes)
        return self.number

    def replay(self, number: int, *changes: Change) -> None:
        rows = batch_rows(self.spark, self.columns, changes)
        self.sink.apply(rows, self.batch(number, len(changes)))

    def truncate(self, before: Position) -> None:
        self.number += 1
        self.sink.truncate(before, self.batch(self.number, 1))

    def restart(self) -> None:
        """A new checkpoint: what comes now was perhaps applied before, under other numbers."""
        self.generation, self.number = self.generation + "+", 0

    def rows(self) -> dict[tuple[object, ...], ViewRow]:
        found = list(self.sink.scan())
        by_key = {row.key: row for row in found}
        assert len(by_key) == len(found), "a key was scanned twice"
        return by_key

    def found(self, keys: Iterable[tuple[object, ...]]) -> set[tuple[object, ...]]:
        """Those of the keys that have a row, when it is asked for them alone."""
        return {row.key for row in self.sink.scan(list(keys))}

    def values(self, name: str) -> dict[object, object]:
        """One column by the (single) key."""
        return {key[0]: row.values[name] for key, row in self.rows().items()}


def upsert(lsn: int, ordinal: int = 1, *, unchanged: Sequence[str] = (), **values: Any) -> Change:
    return Change(values, lsn, ordinal, unchanged=tuple(unchanged))


def delete(lsn: int, ordinal: int = 1, **key: Any) -> Change:
    return Change(key, lsn, ordinal, deleted=True)
