"""A table of a view in Delta, and both ways to write and to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from cdc.config import Delta
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.delta.sink import DeltaSink
from jobs.sinks.delta.table import DeltaView
from tests.support.events.batches import Change, Feed, batch_rows


class Opened:
    """A table of a view, and both ways to write and to read it."""

    def __init__(self, spark: SparkSession, home: Path, columns: StructType) -> None:
        self.path = f"{home}/v"
        self.sink = DeltaSink(DeltaView(Delta(kind="delta", path=str(home)), "v", spark, 5.0))
        self.sink.prepare(columns, ("id",))
        self.feed = Feed(spark, self.sink, columns, "v")
        self._spark, self._columns = spark, columns

    def small(self, *changes: Change) -> None:
        before = self.version
        self.feed.apply(*changes)
        assert self.engines(before) <= {"delta-rs"}

    def large(self, *changes: Change) -> None:
        """As it is written when many keys were touched."""
        before = self.version
        self.feed.number += 1
        rows = batch_rows(self._spark, self._columns, changes)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("jobs.sinks.delta.small_merge.FEW_BYTES", 0)
            self.sink.apply(rows, self.feed.batch(self.feed.number, FEW_ROWS + 1))
        assert "delta-rs" not in self.engines(before)

    @property
    def version(self) -> int:
        return int(DeltaTable(self.path).version())

    def engines(self, after: int) -> set[str]:
        """Who made the versions since then."""
        commits = [one for one in DeltaTable(self.path).history() if one["version"] > after]
        return {str(one.get("engineInfo", "")).split(":")[0] for one in commits}

    def by_spark(self) -> dict[Any, dict[str, Any]]:
        rows = self._spark.read.format("delta").load(self.path).collect()
        names = self._columns.names
        return {row["id"]: {name: row[name] for name in names} for row in rows}

    def scanned(self) -> dict[Any, dict[str, Any]]:
        return {row.key[0]: row.values for row in self.sink.scan()}
