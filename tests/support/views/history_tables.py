"""A table of history, and batches into it that have no DataFrame."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from cdc.config import Delta, View
from jobs.batch.thresholds import HISTORY_CHANGES
from jobs.sinks.contract import Batch
from jobs.sinks.delta.history.table import DeltaHistory
from jobs.sinks.delta.table import DeltaView
from tests.support.events.batches import with_control
from tests.support.events.history_events import COLUMNS, Event, at
from tests.support.views.histories import rows_of


class Written:
    """A table, and the batches into it; each is looked at for who wrote it."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        history: str,
        columns: StructType = COLUMNS,
        **declared: Any,
    ) -> None:
        self.spark, self.home, self.history, self.columns = spark, home, history, columns
        self.declared = View.model_validate(
            {"store": "s", "key": ("id",), "sql": "-", "history": history, **declared}
        )
        self.generation, self.number = "g", 0
        self.sink = self.opened()

    def opened(self) -> DeltaHistory:
        return self.opened_with(self.columns)

    def opened_with(self, columns: StructType, **settings: int) -> DeltaHistory:
        """What another process has, whose view has these columns."""
        said = {"optimize_batches": 0, **settings}
        config = Delta.model_validate({"kind": "delta", "path": str(self.home), **said})
        table = DeltaView(config, "v", self.spark, 5.0, None, self.declared, history=self.history)
        sink = DeltaHistory(table)
        sink.prepare(columns, ("id",))
        return sink

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.home / "v"))

    def write(self, changes: pa.Table) -> str:
        """A batch. Who wrote it; nothing if nobody did."""
        before = self.table.version()
        self.number += 1
        batch = Batch("v", self.generation, self.number, len(changes))
        self.sink.write_changes(changes, batch)
        commits = [one for one in self.table.history() if one["version"] > before]
        assert len(commits) <= 1, "a batch is one commit"
        return str(commits[0].get("engineInfo")).partition(":")[0] if commits else ""

    def apply(self, *events: Event) -> str:
        return self.write(changes_of(events))

    def by_spark(self, *events: Event) -> None:
        """A batch as large ones are written."""
        self.number += 1
        frame = self.spark.createDataFrame(changes_of(events))
        batch = Batch("v", self.generation, self.number, HISTORY_CHANGES + 1)
        self.sink.apply(frame, batch)

    def copied(self, home: Path) -> Written:
        """A table like this one, elsewhere."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return Written(self.spark, home, self.history, self.columns)

    def rows(self) -> list[tuple[Any, ...]]:
        return as_expected(self.home / "v", self.columns, self.history)


def as_expected(path: Path, columns: StructType, history: str) -> list[tuple[Any, ...]]:
    """What a table holds, as ``expected`` has it, in order: of a log the changes, else the
    versions."""
    names = ["id", "__commit_lsn", "__ordinal"]
    names += (
        ["__op", "name", "text", "__committed_at"]
        if history == "log"
        else ["name", "text", "__to_lsn", "__valid_from", "__valid_to", "__current"]
    )
    rows = rows_of(path, columns, history)
    return sorted(tuple(local(row[name]) for name in names) for row in rows)


def local(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if hasattr(value, "astimezone") else value


def changes_of(events: Iterable[Event]) -> pa.Table:
    rows = [
        {
            "id": e.id, "name": e.name, "text": e.name and e.text, "__deleted": e.name is None,
            "__commit_lsn": e.lsn, "__ordinal": e.ordinal,
            "__unchanged": ["text"] if e.name is not None and e.text is None else [],
            "__committed_at": at(e.lsn), "__op": e.op,
        }
        for e in events
    ]  # fmt: skip
    columns = with_control(COLUMNS).add("__op", StringType())
    return pa.Table.from_pylist(rows, to_arrow_schema(columns, timezone="UTC"))
