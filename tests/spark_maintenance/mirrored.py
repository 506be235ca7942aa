"""A view that is kept over mirrors as ``headwater apply`` does, batch by batch, with Spark.

A seed is a set of tables, a view and a history of changes (``histories``).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs.delta_engine.maintainer import Maintainer
from jobs.delta_engine.mirrors.attempts import read_attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.spark.column_types import columns_of, spark_type
from jobs.without_mirrors.fold import EVENT
from tests.spark_maintenance import declared, schemas
from tests.spark_maintenance.dying import KilledError, dying
from tests.spark_maintenance.histories import History
from tests.spark_maintenance.source import Connection
from tests.support.views.recording_sink import RecordingSink
from views.table_versions import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VALUES_READ = [("read", pa.list_(pa.string())), ("read_lsn", pa.int64())]
_EVENT = pa.struct([("op", pa.string()), ("oldest_us", pa.int64()), *_VALUES_READ])


class Mirrored:
    """Tables, and a view of them in a store in memory."""

    def __init__(self, spark: SparkSession, home: Path, seed: int, conn: Connection) -> None:
        self.spark, self.home, random = spark, home, Random(seed)
        tables = schemas.tables(random)
        self.view = declared.view(random, tables)
        self.history = History(seed, random, tables.values(), conn)
        self.tables = self.history.tables
        self.large = seed % 2 == 1
        self.sink = RecordingSink()
        self.columns = columns_of(self.view)
        self.sink.prepare(self.columns, self.view.key)
        self.mirrors = {
            name: Mirror(
                spark, home / name, _columns(self.tables[name], columns), self.tables[name].key
            )
            for name, columns in self.view.mirrored().items()
        }
        for mirror in self.mirrors.values():
            mirror.prepare()
        self.maintainer = Maintainer(spark, self.view, self.columns, self.mirrors, home)

    def apply(self, first: int) -> None:
        """As ``Keeping.apply``: mirrors know what has been settled."""
        done = read_attempts(self.home).offsets.get(_LOG, {}).get(0, 0)
        together, number = self.history.together(max(first, done)), len(self.history.batches)
        rows = {
            name: _folded(self.tables[name], mirror, together[name])
            for name, mirror in self.mirrors.items()
        }
        with _taken_for_large() if self.large else nullcontext():
            self.maintainer.apply(rows, self.sink, "g", number)
            self.maintainer.settle({_LOG: {0: number}})

    def kill(self, first: int) -> None:
        """As ``Keeping.kill``."""
        with suppress(KilledError), dying(self.history.random, self.sink):
            self.apply(first)

    def check(self) -> None:
        """As ``Keeping.check``."""
        self.history.check(self.view, self.sink)


def _columns(table: TableVersion, names: tuple[str, ...]) -> StructType:
    found = {column.name: column for column in table.columns}
    return StructType([StructField(name, spark_type(found[name].type)) for name in names])


def _typed(columns: StructType, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(_value(field.dataType.typeName(), row[field.name]) for field in columns)


def _value(kind: str, value: Any) -> Any:
    """What Arrow takes for a value of a Spark type."""
    if value is None or kind not in _READ:
        return value
    return _READ[kind](value)


_READ: dict[str, Callable[[Any], Any]] = {
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "decimal": Decimal,
    "double": float,
}


def _folded(table: TableVersion, mirror: Mirror, changes: list[dict[str, Any]]) -> pa.Table:
    """As ``Model.rows`` gives them."""
    names = mirror.columns.names
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for change in changes:
        values = _typed(mirror.columns, change["row"])
        for name, value in zip(names, values, strict=True):
            keep = not change["gone"] or name in table.key
            columns[name].append(value if keep else None)
    schema = to_arrow_schema(mirror.columns, timezone="UTC")
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    made = pa.table(arrays, schema=schema)
    gone = [change["gone"] for change in changes]
    lsns = [change["lsn"] for change in changes]
    events = [{"op": "d" if one else "u", "oldest_us": 1} for one in gone]
    added: tuple[tuple[str, list[Any], pa.DataType], ...] = (
        (DELETED, gone, pa.bool_()),
        (COMMIT_LSN, lsns, pa.int64()),
        (ORDINAL, [1] * len(changes), pa.int64()),
        (UNCHANGED, [[] for _ in changes], pa.list_(pa.string())),
        (EVENT, events, _EVENT),
    )
    for name, column, kind in added:
        made = made.append_column(name, pa.array(column, kind))
    return made


@contextmanager
def _taken_for_large() -> Iterator[None]:
    """Whatever is at hand is a file, and Spark reads mirrors whole."""
    with (
        patch("jobs.delta_engine.queries.FEW_ROWS", 0),
    ):
        yield


_LOG = "log"
