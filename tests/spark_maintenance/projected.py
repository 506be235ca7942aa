"""A view of one table that is kept over its events as ``headwater apply`` does, with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from cdc.lsn import Position
from jobs.sinks.contract import Batch
from jobs.without_mirrors.evaluation import Model, evaluate, news_of, released
from tests.spark_maintenance import declared, schemas
from tests.spark_maintenance.dying import KilledError, dying
from tests.spark_maintenance.histories import History
from tests.spark_maintenance.source import Connection
from tests.support.events.events import Record, event, kafka_frame
from tests.support.views.recording_sink import RecordingSink
from views.types import PgType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOWHERE = Position(0, 0)


class Projected:
    """Tables, and a view of one of them in a store in memory."""

    def __init__(self, spark: SparkSession, seed: int, conn: Connection) -> None:
        random = Random(seed)
        tables = schemas.tables(random)
        self.view = declared.single_view(random, tables)
        self.history = History(seed, random, [self.view.table], conn)
        self._spark, self._table = spark, self.view.table
        self._model = Model(self.view, {self._table.schema_id: self._table})
        self.sink = RecordingSink()
        self.sink.prepare(self._model.columns, self.view.key)

    def apply(self, first: int) -> None:
        """As ``Keeping.apply``: the store's positions are all that is settled."""
        records = kafka_frame(self._spark, self._records(first))
        held, counted = evaluate(self._model, records)
        with released(held):
            rows = news_of(held, _NOWHERE, _NOWHERE, empty=False)
            self.sink.apply(rows, Batch("v", "g", len(self.history.batches), counted.keys))

    def kill(self, first: int) -> None:
        """As ``Keeping.kill``."""
        with suppress(KilledError), dying(self.history.random, self.sink, at_most=1):
            self.apply(first)

    def check(self) -> None:
        """As ``Keeping.check``."""
        self.history.check(self.view, self.sink)

    def _records(self, first: int) -> Iterator[Record]:
        kinds = {column.name: column.type for column in self._table.columns}
        for part in self.history.batches[first:]:
            for i, change in enumerate(part[self._table.name]):
                row = {name: _form(kinds[name], value) for name, value in change["row"].items()}
                op, of = "d" if change["gone"] else "u", self._table
                one = event(change["lsn"], i + 1, row, op, of.key, of.schema_id)
                yield one
                if change["gone"]:
                    yield one[0], None


def _form(kind: PgType, value: Any) -> Any:
    """A value as an event carries it."""
    if value is None or kind.name not in ("date", "timestamp", "timestamptz"):
        return value
    return f"{value.replace('+00', '').replace(' ', 'T')}Z"
