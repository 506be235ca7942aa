"""A view of several rows: kept over mirrors of its tables, in the folder of its generation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.topics import table_topic
from jobs.account import Account
from jobs.applying import released
from jobs.columns import columns_of
from jobs.described import described, newest
from jobs.faults import UnknownSchemaError, translate
from jobs.mirrors.maintainer import Maintainer
from jobs.mirrors.models import account_of, folded, models_of, open_mirrors
from jobs.sinks import COMMIT_LSN, DELETED, Batch, Sink
from jobs.state import ViewState
from views.definition import ViewDefinition
from views.maintained import MaintainedView, resolve_maintained

_T = TypeVar("_T")


class MirroredKeeper:
    """A ``jobs.keeping.Keeper``."""

    parked = 0
    """An event that cannot be applied stops the view: its rows hang together."""

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        definition: ViewDefinition,
        state: ViewState,
        sink: Sink,
        broker: Broker,
    ) -> None:
        self._spark, self._config, self._definition = spark, config, definition
        self._state, self._sink, self._broker = state, sink, broker
        self._view: MaintainedView | None = None
        self._topics = {
            one.table_name: table_topic(config.source.name, one.schema, one.table)
            for one in definition.occurrences
        }

    def read(self) -> StructType:
        versions = described(self._broker, self._config.source.name, self._definition)
        tables, before = newest(versions), self._view
        try:
            self._view = resolve_maintained(self._definition, tables)
        except ViewError as error:
            if before is None:
                raise
            were = "; ".join(f"{t.name} was ({t.describe()})" for t in before.tables.values())
            are = "; ".join(f"{table.name} is ({table.describe()})" for table in tables.values())
            raise ViewError(
                f"{error.message}; {were}; {are}",
                "adapt the view's SQL and run `headwater view rebuild "
                + f"{self._definition.name}`",
            ) from None
        self._models = models_of(self._view, versions)
        return columns_of(self._view)

    def open(self, created: bool, begin: Offsets) -> None:
        del created, begin
        assert self._view is not None, "read comes first"
        directory = self._state.mirrors
        directory.mkdir(parents=True, exist_ok=True)
        mirrors = open_mirrors(self._spark, self._models, directory)
        self._maintainer = Maintainer(
            self._spark, self._view, columns_of(self._view), mirrors, directory
        )

    def apply(self, records: DataFrame, number: int, end: Offsets) -> tuple[Batch, Account]:
        del end
        rows = self._described(lambda: self._folded(records))
        keys = self._maintainer.apply(rows, self._sink, self._state.generation, number)
        counted = account_of(rows, keys)
        return Batch(self._definition.name, self._state.generation, number, keys), counted

    def _folded(self, records: DataFrame) -> dict[str, pa.Table]:
        """What each table's records amount to."""
        with ExitStack() as held:
            if len(self._topics) > 1:  # else they are read from Kafka for each of them
                records = records.persist()
                held.enter_context(released(records))
            return {
                name: self._news(folded(model, records.where(F.col("topic") == self._topics[name])))
                for name, model in self._models.items()
            }

    def _news(self, rows: pa.Table) -> pa.Table:
        """Without what the snapshot has that filled the mirrors."""
        beginning = self._state.beginning()
        if beginning is None:
            return rows
        lsn = rows.column(COMMIT_LSN)
        begun = pc.greater_equal(lsn, beginning.lsn)
        later = pc.or_(rows.column(DELETED), pc.greater_equal(lsn, beginning.upto))
        return rows.filter(pc.and_(begun, later))

    def _described(self, evaluate: Callable[[], _T]) -> _T:
        """Evaluate a batch; once more if an event names a version not read yet."""
        name = self._definition.name
        try:
            return evaluate()
        except Exception as error:
            if not isinstance(translate(error, name), UnknownSchemaError):
                raise
        columns = self._sink_columns()
        if self.read() != columns:
            self._sink.prepare(self._sink_columns(), self._definition.key)
        self.open(created=False, begin={})
        return evaluate()

    def _sink_columns(self) -> StructType:
        assert self._view is not None
        return columns_of(self._view)

    def close(self) -> None:
        """Nothing is held."""
