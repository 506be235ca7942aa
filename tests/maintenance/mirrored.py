"""A view that is kept over mirrors as ``headwater apply`` does, batch by batch, with Spark.

A seed is a set of tables, a view and a history of changes. Attempts are killed at random places,
batches come again, alone or with others, and mirrors are written anew in between.
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

from jobs.columns import columns_of, spark_type
from jobs.fold import EVENT
from jobs.mirrors import maintainer
from jobs.mirrors.attempts import read_attempts, write_attempts
from jobs.mirrors.maintainer import Maintainer
from jobs.mirrors.mirror import Mirror
from jobs.mirrors.queries import relations_of
from jobs.mirrors.replayed import Reach
from jobs.mirrors.rows import keys_at_hand
from jobs.mirrors.touched import TouchedKeys
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from tests.maintenance import declared
from tests.recording import RecordingSink
from views.maintenance import whole
from views.tables import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Changes = dict[str, list[dict[str, Any]]]
"""Of one batch, folded, by table."""
_EVENT = pa.struct([("op", pa.string()), ("oldest_us", pa.int64())])


class KilledError(BaseException):
    """The process is gone."""


class Mirrored:
    """Tables, and a view of them in a store in memory."""

    def __init__(self, spark: SparkSession, home: Path, seed: int) -> None:
        self.spark, self.home, self.random = spark, home, Random(seed)
        self.tables = {t.name: t for t in declared.tables(self.random).values()}
        self.view = declared.view(self.random, {t.table: t for t in self.tables.values()})
        self.rows = {name: declared.rows(self.random, t) for name, t in self.tables.items()}
        self.large = seed % 2 == 1
        self.sink, self.lsn, self.history = RecordingSink(), 0, list[Changes]()
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

    def begin(self) -> None:
        """The rows of the beginning."""
        self.history.append({name: _changes({}, self.rows[name], self.lsn) for name in self.tables})
        self.apply(0)

    def batch(self) -> None:
        """Random changes, folded: what the log has next."""
        before = {name: dict(rows) for name, rows in self.rows.items()}
        for _ in range(self.random.randint(1, 8)):
            name = self.random.choice(sorted(self.tables))
            declared.change(self.random, self.tables[name], self.rows[name])
        self.lsn += 10
        changes = {
            name: _changes(before[name], self.rows[name], self.lsn + i)
            for i, name in enumerate(self.tables)
        }
        self.history.append(changes)

    def apply(self, first: int) -> None:
        """The log from ``first`` to its end, as one batch: but for what has been settled."""
        done = read_attempts(self.home).offsets.get(_LOG, {}).get(0, 0)
        together = _together(self.tables, self.history[max(first, done) :])
        rows = {
            name: _folded(self.tables[name], mirror, together[name])
            for name, mirror in self.mirrors.items()
        }
        end = {_LOG: {0: len(self.history)}}
        with _taken_for_large() if self.large else nullcontext():
            self.maintainer.apply(rows, self.sink, "g", len(self.history), end)

    def kill(self, first: int) -> None:
        """As ``apply``; the process ends before or behind one of the writes of the attempt."""
        with suppress(KilledError), _dying(self.random, self.sink):
            self.apply(first)

    def reach(self, first: int) -> None:
        """A replay of the log from ``first`` on, as one batch."""
        events = {
            name: pa.concat_tables(
                [_folded(self.tables[name], mirror, part[name]) for part in self.history[first:]]
            )
            for name, mirror in self.mirrors.items()
        }
        none = {name: rows.slice(0, 0) for name, rows in events.items()}
        with _taken_for_large() if self.large else nullcontext():
            reach = Reach(self.spark, self.view, {}, self.mirrors, self.home, self._stored)
            again = reach.of_events(events).keys
            self.maintainer.apply(none, self.sink, "g", 0, {}, again)

    def _stored(self) -> pa.Table:
        keys = (dict(zip(self.view.key, key, strict=True)) for key in self.sink.rows)
        return keys_at_hand(self.spark, keys, self.columns, self.view.key)

    def check(self) -> None:
        """Raises ``AssertionError`` where the store is not what the SQL says."""
        found = {key: values for key, (_, values) in self.sink.rows.items() if values is not None}
        with relations_of(self.spark, self.home) as relations:
            names = {
                alias: relations.named(self._frame(table), len(self.rows[table.name]))
                for alias, table in self.view.tables.items()
            }
            wanted = {
                tuple(row[name] for name in self.view.key): row.asDict(recursive=True)
                for row in self.spark.sql(whole(self.view, names)).collect()
            }
        assert found == wanted, self.view.definition.sql

    def _frame(self, table: TableVersion) -> Any:
        columns = _columns(table, tuple(c.name for c in table.columns))
        rows = [_typed(columns, row) for row in self.rows[table.name].values()]
        if not rows:
            return self.spark.createDataFrame([], columns)
        schema = to_arrow_schema(columns)
        arrays = [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), schema, strict=True)]
        return self.spark.createDataFrame(pa.table(arrays, schema=schema), columns)


def plain_history(kept: Mirrored, batches: int) -> None:
    """Batch after batch, the view is what its SQL says."""
    kept.begin()
    kept.check()
    for _ in range(batches):
        kept.batch()
        kept.apply(len(kept.history) - 1)
        kept.check()


def broken_history(kept: Mirrored, batches: int) -> None:
    """The same with kills, what was applied coming again, and mirrors that are written anew."""
    kept.begin()
    for _ in range(batches):
        kept.batch()
        first = kept.random.randrange(len(kept.history))
        if kept.random.random() < 0.7:
            kept.kill(first)
            if kept.random.random() < 0.5:  # and what comes again comes with more
                kept.batch()
        few = -1 if kept.random.random() < 0.3 else 20_000
        with patch("jobs.mirrors.mirror._FEW", few):
            kept.apply(first)
        kept.check()


def set_back_history(kept: Mirrored, batches: int) -> None:
    """The store is set back, by a backup, and what came since comes again."""
    kept.begin()
    copies = [dict(kept.sink.rows)]
    for number in range(batches):
        kept.batch()
        kept.apply(number + 1)
        copies.append(dict(kept.sink.rows))
    for number in range(batches):
        kept.sink.rows = dict(copies[number])
        kept.reach(number + 1)
        kept.check()


def _columns(table: TableVersion, names: tuple[str, ...]) -> StructType:
    found = {column.name: column for column in table.columns}
    return StructType([StructField(name, spark_type(found[name].type)) for name in names])


def _typed(columns: StructType, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(_value(field.dataType.typeName(), row[field.name]) for field in columns)


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "date":
        return datetime.date.fromisoformat(value)
    return Decimal(value) if kind == "decimal" else value


def _changes(before: Any, after: Any, lsn: int) -> list[dict[str, Any]]:
    found = [{"row": row, "gone": False, "lsn": lsn} for key, row in after.items()
             if before.get(key) != row]  # fmt: skip
    return found + [
        {"row": row, "gone": True, "lsn": lsn} for key, row in before.items() if key not in after
    ]


def _folded(table: TableVersion, mirror: Mirror, changes: list[dict[str, Any]]) -> pa.Table:
    """As ``Model.rows`` gives them."""
    names = mirror.columns.names
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for change in changes:
        values = _typed(mirror.columns, change["row"])
        for name, value in zip(names, values, strict=True):
            keep = not change["gone"] or name in table.key
            columns[name].append(value if keep else None)
    schema = to_arrow_schema(mirror.columns)
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


def _together(tables: Mapping[str, TableVersion], parts: list[Changes]) -> Changes:
    """Several batches' changes as one batch: the last one of each row."""
    found: Changes = {}
    for name, table in tables.items():
        last: dict[tuple[Any, ...], dict[str, Any]] = {}
        for part in parts:
            for change in part.get(name, []):
                key = tuple(change["row"][column] for column in table.key)
                if key not in last or last[key]["lsn"] <= change["lsn"]:
                    last[key] = change
        found[name] = list(last.values())
    return found


@contextmanager
def _taken_for_large() -> Iterator[None]:
    """Whatever is at hand is a file, and Spark reads mirrors whole."""
    with (
        patch("jobs.mirrors.queries._IN_PLAN", 0),
        patch("jobs.mirrors.queries._MANY", 0),
        patch("jobs.mirrors.queries._SHARE", 1_000_000),
    ):
        yield


@contextmanager
def _dying(random: Random, sink: RecordingSink) -> Iterator[None]:
    left, behind = random.randint(1, 6), random.random() < 0.5

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and not behind:
                raise KilledError
            answer = real(*args, **more)
            if left == 0:
                raise KilledError
            return answer

        return run

    with (
        patch.object(Mirror, "append", dying(Mirror.append)),
        patch.object(TouchedKeys, "keep", dying(TouchedKeys.keep)),
        patch.object(sink, "apply", dying(sink.apply)),
        patch.object(maintainer, "write_attempts", dying(write_attempts)),
    ):
        yield


_LOG = "log"
