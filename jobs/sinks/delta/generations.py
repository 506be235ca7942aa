"""The generations of a view in Delta Lake.

One is filled in a table of its own, ``<path>/<view>@<n>``, made with its rows in its first commit.
A switch is one commit on ``<path>/<view>``, the table that people read, which replaces its rows,
columns and properties together; the first generation's folder is renamed, where the file system
does that at once. The generation left is a version of that table, and Delta restores it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cdc.config import Delta, View
from cdc.errors import SinkError, ViewError
from jobs.sinks.contract import COMMIT_LSN, ORDINAL, Live
from jobs.sinks.delta.errors import (
    HISTORY_PROPERTY,
    KEY_PROPERTY,
    Layout,
    apart_path,
    is_table,
    laid_out,
    layout,
    layout_of,
    live_path,
    new_properties,
    refused,
    run,
    table_properties,
    version_of,
)
from jobs.sinks.delta.fill import POSITION, fill
from jobs.sinks.delta.history.columns import CONTROL, loaded
from jobs.sinks.delta.new_table import create_table
from jobs.sinks.delta.ownership import generation_at
from jobs.sinks.rows import Rows
from jobs.sinks.schema_evolution import check_names, quoted
from jobs.spark.faults import fault

_RENAMING: Final = frozenset({"file", "hdfs", "viewfs"})
"""File systems that rename a folder at once; object stores copy file by file."""
_T = TypeVar("_T")


class DeltaGenerations:
    """``jobs.sinks.contract.Generations`` of one view below one path."""

    def __init__(
        self,
        config: Delta,
        view: str,
        spark: SparkSession | None,
        retry_s: float,
        declared: View | None = None,
        history: str = "",
    ) -> None:
        if spark is None:
            raise ViewError(f"view {view}: a Delta store needs a Spark session")
        self._view, self._spark, self._retry_s = view, spark, retry_s
        self._declared, self._history = declared, history
        self._config, self._live = config, live_path(config, view)
        self._apart = partial(apart_path, config, view)
        self._dropped = f"{self._live}@dropped"

    def _number(self) -> int | None:
        """What is shown. Raises ``ViewError`` for what is somebody else's."""
        return self._run(lambda: generation_at(self._spark, self._view, self._live))

    def live(self) -> Live | None:
        number = self._number()
        if number is None:
            return None
        version = self._run(lambda: version_of(self._spark, self._live))
        held = self._run(lambda: table_properties(self._spark, self._live))
        return Live(number, str(version), held.get(HISTORY_PROPERTY, ""))

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        check_names(self._view, "delta", columns)
        path = self._apart(number)
        self._delete(path)
        properties = new_properties(
            self._config, self._declared, columns, key, number, self._history
        )
        how = layout(self._view, self._declared, columns)
        if isinstance(rows, DataFrame):
            self._load_frame(path, rows, columns, key, how, properties)
        else:
            plain = [StructField(field.name, field.dataType) for field in columns]
            whole = StructType([*plain, *(CONTROL[self._history] if self._history else POSITION)])
            self._run(lambda: create_table(self._spark, path, whole, how, properties))
            filling = partial(fill, self._spark, self._view, path, whole, key, rows)
            run(self._view, path, 0.0, filling)  # rows are made once: it is not tried again

    def _load_frame(
        self,
        path: str,
        rows: DataFrame,
        columns: StructType,
        key: tuple[str, ...],
        how: Layout,
        properties: dict[str, str],
    ) -> None:
        selected = [self._value(columns, name, key) for name in columns.names]
        at = loaded(self._history) if self._history else [F.col(COMMIT_LSN), F.col(ORDINAL)]
        whole = rows.select(*selected, *at)
        writer = whole.writeTo(f"delta.{quoted(path)}").using("delta")
        writer = laid_out(writer, how)
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        try:
            writer.create()
        except AnalysisException as error:
            raise refused(self._view, path, error) from error

    def _value(self, columns: StructType, name: str, key: tuple[str, ...]) -> Any:
        column = F.col(quoted(name))
        if name not in key:
            return column
        missing = fault(
            "ViewError",
            f"view {self._view}: a row's key is null",
            F.lit(name),
            "choose key columns that cannot be null",
        )
        return F.coalesce(column, missing.cast(columns[name].dataType)).alias(name)

    def switch(self, number: int, mark: str = "") -> None:
        path = self._apart(number)
        if self._number() != number:
            self._run(lambda: self._show(number, path, mark))
        self._delete(path)

    def _show(self, number: int, path: str, mark: str) -> None:
        if not is_table(self._spark, path) and mark:
            DeltaTable.forPath(self._spark, self._live).restoreToVersion(int(mark))
        elif is_table(self._spark, self._live) or not self._renamed(path, self._live):
            self._replace(number, path)

    def _replace(self, number: int, path: str) -> None:
        held = table_properties(self._spark, path)
        table = self._spark.read.format("delta").load(path)
        writer = table.writeTo(f"delta.{quoted(self._live)}").using("delta")
        key = tuple(json.loads(held[KEY_PROPERTY]))
        history = held.get(HISTORY_PROPERTY, "")
        writer = laid_out(writer, layout_of(self._spark, path))
        properties = new_properties(
            self._config, self._declared, table.schema, key, number, history
        )
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        writer.createOrReplace()

    def _renamed(self, path: str, name: str) -> bool:
        """Let the folder have another name, if that is one step here."""
        files, source = self._files(path)
        if files.getScheme() not in _RENAMING:
            return False
        target = self._path(name)
        if files.exists(target):  # something that is no table: Delta says what it thinks of it
            return False
        return bool(files.rename(source, target))

    def drop(self, number: int) -> None:
        """What is left of a table whose deletion was killed belongs to nobody by its look: so it
        loses the name that people read first."""
        self._delete(self._dropped)  # of a killed process
        if self._number() == number and not self._renamed(self._live, self._dropped):
            self._delete(self._live)
        self._delete(self._dropped)
        self._delete(self._apart(number))

    def close(self) -> None:
        """The session is the caller's; nothing else is held."""

    def _delete(self, path: str) -> None:
        files, folder = self._run(lambda: self._files(path))
        if self._run(lambda: files.exists(folder) and not files.delete(folder, True)):
            raise SinkError(f"view {self._view}: {path} cannot be deleted")

    def _files(self, path: str) -> tuple[Any, Any]:
        """Hadoop's file system of a path, and the path in its terms."""
        context: Any = self._spark.sparkContext
        folder = self._path(path)
        return folder.getFileSystem(context._jsc.hadoopConfiguration()), folder

    def _path(self, path: str) -> Any:
        context: Any = self._spark.sparkContext
        return context._jvm.org.apache.hadoop.fs.Path(path)

    def _run(self, action: Callable[[], _T]) -> _T:
        return run(self._view, self._live, self._retry_s, action)
