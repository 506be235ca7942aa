"""What makes a store equal to the batches of a view's stream, one at a time."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.config import Config
from cdc.kafka.broker import Broker, Offsets
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import Batch, Sink
from jobs.without_mirrors.batch_counts import Account
from views.parse.definition import ViewDefinition


class Keeper(Protocol):
    """Keeps one generation of a view. Use from one thread at a time."""

    def read(self) -> StructType:
        """Read how the tables are described; the view's columns, as a store is to hold them.

        Raises ``RetryableError`` when capture has not described a table yet, ``ViewError`` when
        the view does not fit them.
        """

    def open(self, created: bool, begin: Offsets) -> None:
        """The store is there, made just now if ``created``; the first batch begins at ``begin``."""

    def apply(self, records: DataFrame, number: int, end: Offsets) -> tuple[Batch, Account]:
        """Apply batch ``number``, which ends at ``end``: again with the same effect."""

    @property
    def parked(self) -> int:
        """How many keys wait, their events being dead letters."""

    def close(self) -> None:
        """Release connections."""


def open_keeper(
    spark: SparkSession,
    config: Config,
    definition: ViewDefinition,
    state: ViewState,
    sink: Sink,
    broker: Broker,
) -> Keeper:
    """Over mirrors of its tables for a view whose rows are made of several rows, else over the
    events of its table alone."""
    if definition.maintained:
        from jobs.delta_engine.keeper import MirroredKeeper

        return MirroredKeeper(spark, config, definition, state, sink, broker)
    from jobs.without_mirrors.single_table import FoldedKeeper

    return FoldedKeeper(spark, config, definition, state, sink, broker)
