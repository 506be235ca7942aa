"""A sink that keeps what it is given in memory, by the contract of ``jobs.sinks``, and views into
it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc.config import Config
from cdc.lsn import Position
from jobs.sinks.contract import (
    COMMIT_LSN,
    CONTROL_COLUMNS,
    DELETED,
    ORDINAL,
    UNCHANGED,
    Batch,
    ViewRow,
)
from jobs.sinks.row_errors import RowsError, raise_together, unknown_values
from jobs.without_mirrors.views import apply_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cdc.errors import HeadwaterError
    from tests.support.events.written_topics import Log


class RecordingSink:
    """``rows`` by key; deleted keys keep their position. ``before_apply`` may raise or block."""

    def __init__(self, before_apply: Callable[[Batch], None] = lambda _batch: None) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Position, dict[str, Any] | None]] = {}
        self.batches: list[Batch] = []
        self.columns: list[StructType] = []
        self.closed = False
        self._key: tuple[str, ...] = ()
        self._before_apply = before_apply
        self._lock = threading.Lock()

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        self.columns.append(columns)
        self._key = key
        return len(self.columns) == 1

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        self._before_apply(batch)
        with self._lock:
            errors: list[RowsError] = []
            for row in rows.collect():
                self._put(row.asDict(recursive=True), batch.view, errors)
            raise_together(errors)
            self.batches.append(batch)

    def _put(self, row: dict[str, Any], view: str, errors: list[RowsError]) -> None:
        key = tuple(row[name] for name in self._key)
        position = Position(row[COMMIT_LSN], row[ORDINAL])
        held = self.rows.get(key)
        if held is not None and held[0] >= position:
            return
        values = {name: value for name, value in row.items() if name not in CONTROL_COLUMNS}
        for name in row[UNCHANGED]:
            if held is None or held[1] is None:
                id_ = str(key[0]) if len(key) == 1 else json.dumps(key)
                errors.append(unknown_values(view, [(id_, position)], 1))
                return
            values[name] = held[1][name]
        self.rows[key] = (position, None if row[DELETED] else values)

    def truncate(self, before: Position, batch: Batch) -> None:
        with self._lock:
            self.rows = {key: row for key, row in self.rows.items() if row[0] >= before}
            self.batches.append(batch)

    def scan(self, keys: Collection[tuple[object, ...]] | None = None) -> Iterator[ViewRow]:
        for key, (position, values) in self.rows.items():
            if values is not None and (keys is None or key in keys):
                yield ViewRow(key, position, values)

    def close(self) -> None:
        self.closed = True

    def values(self) -> dict[Any, dict[str, Any]]:
        """Live rows by the only column of the key."""
        return {row.key[0]: row.values for row in self.scan()}


def configured(log: Log, state: Path, **views: str) -> Config:
    """Views, by their SQL, over what is written into ``log``; their store is given at ``apply``."""
    return Config.model_validate(
        {
            "source": {"name": log.source, "dsn": "dbname=unused", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": log.bootstrap},
            "stores": {"memory": {"kind": "redis", "url": "redis://localhost:1/0"}},
            "views": {
                name: {"store": "memory", "key": ["id"], "sql": sql} for name, sql in views.items()
            },
            "apply": {"state": str(state), "retry_s": 5},
        }
    )


def apply_now(
    spark: SparkSession, config: Config, **sinks: RecordingSink
) -> dict[str, HeadwaterError]:
    """Apply what there is to the views that have a sink."""
    return apply_views(spark, config, list(sinks), threading.Event(), True, sinks)
