"""The Delta table of a view, whatever it holds: where it is, its making, columns and upkeep."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, TypeVar

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc.config import Delta, View
from cdc.errors import FatalError, SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks.arrow import stream_columns
from jobs.sinks.contract import COMMIT_LSN, ORDINAL, Batch, ViewRow
from jobs.sinks.delta.compaction import join_files
from jobs.sinks.delta.delta_reader import folder_of
from jobs.sinks.delta.errors import (
    HISTORY_PROPERTY,
    KEY_PROPERTY,
    SMALL_FILE_BYTES,
    WIDENING,
    apart_path,
    columns_of,
    features,
    is_table,
    kept_properties,
    layout,
    live_path,
    new_properties,
    run,
    set_properties,
    small_files,
    table_properties,
)
from jobs.sinks.delta.new_table import create_table
from jobs.sinks.delta.ownership import generation_at
from jobs.sinks.delta.transactions import Transaction, Transactions
from jobs.sinks.delta.upkeep import Upkeep
from jobs.sinks.row_errors import TOLD, unkeyed
from jobs.sinks.schema_evolution import changes, check_key, check_names, evolved, quoted, widens

_DAY_S = 86_400
_SPARK_EVERY_S = 900.0
"""Between two times that Spark may join a table's files."""
_T = TypeVar("_T")


class DeltaView:
    """One generation's table; ``generation`` None: the one that people read. ``declared`` is what
    the configuration says of the view, ``history`` what the generation was declared with."""

    def __init__(
        self,
        config: Delta,
        view: str,
        spark: SparkSession | None,
        retry_s: float,
        generation: int | None = None,
        declared: View | None = None,
        history: str = "",
    ) -> None:
        if spark is None:
            raise ViewError(f"view {view}: a Delta store needs a Spark session")
        self.view, self.spark, self.history = view, spark, history
        self.path = live_path(config, view)
        self.columns, self.key = StructType(), tuple[str, ...]()
        self._config, self._retry_s, self._declared = config, retry_s, declared
        self._wanted = generation
        self._apart = "" if generation is None else apart_path(config, view, generation)
        every = config.optimize_batches
        self._upkeep = Upkeep(view, self.path, every, self._compact, self._vacuum)
        self._transactions: Transactions | None = None
        self._spark_due = 0.0

    def prepare(
        self, columns: StructType, key: tuple[str, ...], control: Iterable[StructField]
    ) -> bool:
        """As ``Sink.prepare``; ``control`` are the columns beside the view's own."""
        check_names(self.view, "delta", columns)
        held = self.run(lambda: generation_at(self.spark, self.view, self.path))
        if self._wanted not in (None, held):
            if self.run(lambda: is_table(self.spark, self._apart)):
                held, self.path = self._wanted, self._apart
                self._upkeep.table = self._apart
            elif held is not None:
                raise ViewError(
                    f"view {self.view}: {self.path} holds generation {held}, but {self._wanted} "
                    "does not exist",
                    f"run `headwater view rebuild {self.view}`",
                )
        if held is not None:
            self.run(lambda: self._extend(columns, key, list(control)))
        else:
            self.run(lambda: self._create(columns, key, control))
        self.columns, self.key = columns, key
        self._transactions = self._transactions or Transactions(self.spark, self.path)
        return held is None

    def _create(
        self, columns: StructType, key: tuple[str, ...], control: Iterable[StructField]
    ) -> None:
        fields = [StructField(field.name, field.dataType) for field in columns]
        how = layout(self.view, self._declared, columns)
        number = self._wanted or 1
        properties = new_properties(
            self._config, self._declared, columns, key, number, self.history
        )
        create_table(self.spark, self.path, StructType([*fields, *control]), how, properties)

    def _extend(
        self, columns: StructType, key: tuple[str, ...], control: list[StructField]
    ) -> None:
        held_properties = table_properties(self.spark, self.path)
        check_key(self.view, json.loads(held_properties[KEY_PROPERTY]), key)
        if (history := held_properties.get(HISTORY_PROPERTY, "")) != self.history:
            raise ViewError(
                f'view {self.view}: {self.path} was created with history = "{history}", but the '
                f'configuration has history = "{self.history}"',
                f"restore the setting, or run `headwater view rebuild {self.view} "
                "--new-history` to start over",
            )
        names = {field.name for field in control}
        held = [f for f in columns_of(self.spark, self.path) if f.name not in names]
        whole = evolved(self.view, StructType(held), columns, widens).fields
        added = StructType(whole[len(held) :])
        wider = [new for new, old in zip(whole, held, strict=False) if new is not old]
        needed = self._kept() | features(added) | (WIDENING if wider else {})
        set_properties(self.spark, self.path, needed)
        alter = f"ALTER TABLE delta.{quoted(self.path)}"
        before = {field.name: field.dataType for field in held}
        for field in wider:
            for one in changes(before[field.name], field.dataType, (field.name,)):
                path, kind = ".".join(map(quoted, one.path)), one.wanted.simpleString()
                self.spark.sql(f"{alter} ALTER COLUMN {path} TYPE {kind}")
        if added.fields:
            fields = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in added)
            self.spark.sql(f"{alter} ADD COLUMNS ({fields})")

    def _kept(self) -> dict[str, str]:
        return kept_properties(self._config, self._declared)

    def table(self, session: SparkSession) -> DeltaTable:
        return DeltaTable.forPath(session, self.path)

    def transaction(self, batch: Batch) -> Transaction | None:
        """The number of a batch in the table's log, None if it has it already."""
        assert self._transactions is not None, "prepare comes first"
        return self._transactions.of(batch)

    def keyed(self) -> Column:
        """Whether a row has its whole key."""
        return reduce(and_, (F.col(quoted(name)).isNotNull() for name in self.key))

    def refuse_unkeyed(self, rows: DataFrame) -> None:
        """Nothing of a batch with such rows is written."""
        found = rows.where(~self.keyed()).select(COMMIT_LSN, ORDINAL).limit(TOLD).collect()
        raise unkeyed(self.view, (Position(*row) for row in found))

    def scanned(self, rows: DataFrame) -> Iterator[ViewRow]:
        """Rows of the table as ``Sink.scan`` gives them."""
        names = self.columns.names
        wanted = [F.col(quoted(name)) for name in (*names, COMMIT_LSN, ORDINAL)]
        return self.rows_of(stream_columns(self.run(lambda: rows.select(*wanted))))

    def rows_of(self, batches: Iterable[dict[str, list[Any]]]) -> Iterator[ViewRow]:
        """The same, of columns: the view's own and the position."""
        names = self.columns.names
        for columns in batches:
            lsns, ordinals = columns.pop(COMMIT_LSN), columns.pop(ORDINAL)
            keys = zip(*(columns[name] for name in self.key), strict=True)
            values = zip(*columns.values(), strict=True)
            for key, row, lsn, ordinal in zip(keys, values, lsns, ordinals, strict=True):
                # What somebody else wrote has no position: it is older than all.
                yield ViewRow(
                    key, Position(lsn or 0, ordinal or 0), dict(zip(names, row, strict=True))
                )

    def after_batch(self) -> None:
        """Look after the table's files, if it is time."""
        self._upkeep.after_batch()

    def _compact(self) -> int:
        """Join small files when many have gathered; large ones are left as they are. Here, where
        that is possible; Spark is asked rarely: batches wait for it meanwhile."""
        if (fewer := join_files(self.path, self._config.small_files)) is not None:
            return fewer
        if time.monotonic() < self._spark_due:
            return 0
        self._spark_due = time.monotonic() + _SPARK_EVERY_S
        return self._compact_by_spark()

    def _compact_by_spark(self) -> int:
        before = small_files(self.spark, self.path, SMALL_FILE_BYTES)
        if before < self._config.small_files:
            return 0
        self.table(self.spark).optimize().executeCompaction()
        return before - small_files(self.spark, self.path, SMALL_FILE_BYTES)

    def _vacuum(self) -> None:
        """Delete the files that no version needs which can still be read. On this machine it is
        looked first whether there is a file of that age: Spark takes seconds to find none."""
        if "://" in self.path or has_older_files(
            folder_of(self.path), self._config.retention_days * _DAY_S
        ):
            self.table(self.spark).vacuum()

    def run(self, action: Callable[[], _T]) -> _T:
        """Run ``action``, again while others write the table or its disk is full. Raises
        ``SinkError`` for a table that was removed since it was prepared."""
        try:
            return run(self.view, self.path, self._retry_s, action)
        except FatalError as error:
            if self._transactions is None or is_table(self.spark, self.path):
                raise
            again = " --new-history" if self.history else ""
            raise SinkError(
                f"view {self.view}: Delta table {self.path} was removed",
                f"run `headwater view rebuild {self.view}{again}`",
            ) from error


def has_older_files(folder: Path, age_s: float) -> bool:
    """Whether a file of a table on this machine is older than ``age_s``; those of its log aside."""
    oldest = time.time() - age_s
    files = (file for file in folder.rglob("*") if "_delta_log" not in file.parts)
    return any(file.is_file() and file.stat().st_mtime < oldest for file in files)
