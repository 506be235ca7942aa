"""Rows of a view written apart from its stream, while nobody else writes it.

A row read at LSN L stands at ``(L, 0)``: sinks put it over whatever is older, and what the stream
brings of L and later goes over it. One thing the position does not settle: a store that forgets
deleted rows (Delta) would take a row back that was deleted after L. So the stream is held
meanwhile, and whoever writes leaves out what it has touched since.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.config import Config
from cdc.kafka.broker import Offsets
from jobs.generations.live_view_lock import live_held
from jobs.generations.view_state import state_directory, view_directory
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED, Batch, Sink
from jobs.spark.checkpoint import planned_offsets
from jobs.spark.column_types import columns_of
from jobs.spark.event_values import widens
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.fold import EVENT
from jobs.without_mirrors.snapshot_rows import RECORD
from views.spark.resolution import ResolvedView
from views.spark.view import View
from views.table_versions import TableVersion

_CONTROL = (
    StructType()
    .add(DELETED, BooleanType())
    .add(COMMIT_LSN, LongType())
    .add(ORDINAL, LongType())
    .add(UNCHANGED, ArrayType(StringType()))
    .add(COMMITTED_AT, TimestampType())
)
_TIMES = (DateType, TimestampType, TimestampNTZType)


class LiveView:
    """The generation of a view that people read; ``sink`` is prepared for it, and ``number`` is
    what was live before that."""

    def __init__(
        self, spark: SparkSession, config: Config, view: ResolvedView, sink: Sink, number: int
    ) -> None:
        self._spark, self._config, self._view, self._sink = spark, config, view, sink
        self._directory = view_directory(config.apply.state, config.source.name, view.name)
        self._number = number
        # A checkpoint of its own, so to speak: no batch of the stream's has this id.
        self._id, self._writes = str(uuid.uuid4()), 0

    @contextmanager
    def held(self) -> Iterator[Offsets]:
        """Nobody else writes the view until the block ends; gives what it may have applied: the
        next offsets to read. Raises as ``live_held`` does."""
        with live_held(self._directory, self._config.apply.retry_s, self._number):
            yield planned_offsets(state_directory(self._directory, self._number) / "checkpoint")

    def write(
        self,
        lsn: int,
        version: TableVersion,
        events: Sequence[tuple[bytes, bytes]],
        gone: Sequence[Mapping[str, object]],
    ) -> None:
        """Make rows what they were at ``lsn``; only while ``held``.

        ``events`` are keys and values of rows, written under ``version`` of the table; ``gone`` are
        key columns of rows that the source did not have, as ``Sink.scan`` gave them.
        """
        view = self._view
        known = _as_known(version, view.table)
        model = Model(view, {version.schema_id: known})
        if events:
            records = [
                (bytearray(key), bytearray(value), "source", 0, number)
                for number, (key, value) in enumerate(events)
            ]
            rows = model.rows(self._spark.createDataFrame(records, RECORD)).drop(EVENT)
            self._apply(rows, len(events))
        if gone:
            self._apply(self._deletes(lsn, gone), len(gone))

    def _deletes(self, lsn: int, gone: Sequence[Mapping[str, object]]) -> DataFrame:
        columns = columns_of(self._view)
        control: tuple[Any, ...] = (True, lsn, 0, [], datetime.now(UTC))
        rows: list[tuple[Any, ...]] = [
            (*(key.get(field.name) for field in columns), *control) for key in gone
        ]
        return self._spark.createDataFrame(rows, StructType([*columns.fields, *_CONTROL.fields]))

    def _apply(self, rows: DataFrame, keys: int) -> None:
        self._writes += 1
        self._sink.apply(rows, Batch(self._view.name, self._id, self._writes, keys))


def _as_known(version: TableVersion, table: TableVersion) -> TableVersion:
    """With the types that the view knows, where they were made wider since: it has met no event of
    the new ones, and its store no room for others. A value that does not fit is a fault."""
    columns = []
    for column in version.columns:
        held = table.column(column.name)
        kept = held is not None and widens(held.type, column.type)
        columns.append(column._replace(type=held.type) if held and kept else column)
    return replace(version, columns=tuple(columns))


def writable(view: View, key: Mapping[str, object]) -> bool:
    """Whether a stored key can be given back to a store: it is whole, and no time outside Python's
    years."""
    columns = columns_of(view)
    return not any(
        value is None or (isinstance(columns[name].dataType, _TIMES) and isinstance(value, str))
        for name, value in key.items()
    )
