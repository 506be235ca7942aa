"""Batches in the log of a Delta table: each checkpoint's by number, under an id of its own.

Delta takes a number once, so a batch that is written twice by this process is written once, and
of two processes that write the same batch one fails. A number that the log had before this process
began is written without: the batch may be another one, for a checkpoint that was restored from an
older copy plans its batches anew. Then the rows' positions are what keeps it from changing anything
a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrameWriter, SparkSession

from jobs.sinks.contract import Batch
from jobs.sinks.delta.delta_reader import opened
from jobs.sinks.delta.errors import snapshot_of

_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
# A MERGE reads its source twice and would copy it first; a batch is cached, so it need not be.
_SOURCE_IS_CACHED = {
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
}


class Transaction(NamedTuple):
    """What Delta's log remembers of one write."""

    app_id: str
    version: int


class Transactions:
    """Of one table. ``step`` tells the writes of a batch apart that go to one table."""

    def __init__(self, spark: SparkSession, path: str, step: str = "") -> None:
        self._spark, self._path, self._step = spark, path, step
        self._held: dict[str, int] = {}

    def of(self, batch: Batch) -> Transaction | None:
        """None if the log had this number, or a higher one, when it was first asked."""
        app_id = ":".join(filter(None, ("headwater", batch.view, batch.generation, self._step)))
        if app_id not in self._held:
            self._held[app_id] = last_version(self._spark, self._path, app_id)
        return Transaction(app_id, batch.number) if batch.number > self._held[app_id] else None


def last_version(spark: SparkSession, path: str, app_id: str) -> int:
    """The highest number that a table's log has of an id, -1 for none."""
    if (table := opened(path)) is not None:
        held = table.transaction_version(app_id)
        return -1 if held is None else held
    found = snapshot_of(spark, path).transactions().get(app_id)
    return int(found.get()) if found.isDefined() else -1


@contextmanager
def confined(session: SparkSession, transaction: Transaction | None) -> Iterator[None]:
    """Settings of one MERGE, which takes no options of its own; gone when it is done."""
    settings = dict(_SOURCE_IS_CACHED)
    if transaction is not None:
        settings |= {_APP_ID: transaction.app_id, _APP_VERSION: str(transaction.version)}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def numbered(writer: DataFrameWriter, transaction: Transaction | None) -> DataFrameWriter:
    """An append, under its number."""
    if transaction is None:
        return writer
    app_id, version = transaction
    return writer.option("txnAppId", app_id).option("txnVersion", version)
