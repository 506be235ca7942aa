"""Views over mirrors, batch by batch, are equal to their SQL over the tables.

A seed is a set of tables, a view and a history of changes. Attempts are killed at random places;
what follows makes good for them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs.columns import columns_of, spark_type
from jobs.fold import EVENT
from jobs.mirrors.attempts import write_attempts
from jobs.mirrors.maintainer import Maintainer
from jobs.mirrors.mirror import Mirror
from jobs.mirrors.queries import relations_of
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from tests.maintenance import declared
from tests.recording import RecordingSink
from views.maintenance import whole
from views.tables import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEEDS = 12
_BATCHES = 4
_EVENT = pa.struct([("op", pa.string()), ("oldest_us", pa.int64())])


class KilledError(BaseException):
    """The process is gone."""


class Kept:
    """Tables, and a view of them in a store in memory."""

    def __init__(self, spark: SparkSession, home: Path, seed: int) -> None:
        self.spark, self.random = spark, Random(seed)
        self.tables = {t.name: t for t in declared.tables(self.random).values()}
        self.view = declared.view(self.random, {t.table: t for t in self.tables.values()})
        self.rows = {name: declared.rows(self.random, t) for name, t in self.tables.items()}
        self.sink, self.lsn, self.number = RecordingSink(), 0, 0
        self.columns = columns_of(self.view)
        self.sink.prepare(self.columns, self.view.key)
        self.mirrors = {
            name: Mirror(spark, home / name, _columns(self.tables[name], columns), _key(self, name))
            for name, columns in self.view.mirrored().items()
        }
        for mirror in self.mirrors.values():
            mirror.prepare()
        self.maintainer = Maintainer(spark, self.view, self.columns, self.mirrors, home)

    def begin(self) -> None:
        self.apply({name: _changes({}, self.rows[name], self.lsn) for name in self.tables})

    def batch(self) -> dict[str, list[dict[str, Any]]]:
        """Random changes, folded."""
        before = {name: dict(rows) for name, rows in self.rows.items()}
        for _ in range(self.random.randint(1, 8)):
            name = self.random.choice(sorted(self.tables))
            declared.change(self.random, self.tables[name], self.rows[name])
        self.lsn += 10
        return {
            name: _changes(before[name], self.rows[name], self.lsn + i)
            for i, name in enumerate(self.tables)
        }

    def apply(self, changes: dict[str, list[dict[str, Any]]]) -> None:
        self.number += 1
        rows = {
            name: _folded(self.tables[name], mirror, changes.get(name, []))
            for name, mirror in self.mirrors.items()
        }
        self.maintainer.apply(rows, self.sink, "g", self.number)

    def check(self) -> None:
        found = {key: values for key, (_, values) in self.sink.rows.items() if values is not None}
        with relations_of(self.spark) as relations:
            names = {
                alias: relations.named(self._frame(table))
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
        return self.spark.createDataFrame(rows, columns)


def _key(kept: Kept, name: str) -> tuple[str, ...]:
    return kept.tables[name].key


def _columns(table: TableVersion, names: tuple[str, ...]) -> StructType:
    found = {column.name: column for column in table.columns}
    return StructType([StructField(name, spark_type(found[name].type)) for name in names])


def _typed(columns: StructType, row: dict[str, Any]) -> tuple[Any, ...]:
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


Changes = dict[str, list[dict[str, Any]]]


def _together(tables: dict[str, TableVersion], parts: list[Changes]) -> Changes:
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


@pytest.fixture(params=range(_SEEDS))
def kept(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Kept:
    print(f"seed {request.param}")
    return Kept(spark, tmp_path, request.param)


def test_a_view_is_what_its_sql_says_after_every_batch(kept: Kept) -> None:
    kept.begin()
    kept.check()
    for _ in range(_BATCHES):
        kept.apply(kept.batch())
        kept.check()


def test_whatever_was_killed_or_comes_again_the_view_is_what_its_sql_says(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.begin()
    history: list[Changes] = []
    for _ in range(_BATCHES):
        history.append(kept.batch())
        if kept.random.random() < 0.7:
            with monkeypatch.context() as patched, suppress(KilledError):
                _kill_at(kept, patched)
                kept.apply(history[-1])
        # The same batch again, or from an older checkpoint more than that, in one.
        again = kept.random.randint(1, min(3, len(history)))
        kept.apply(_together(kept.tables, history[-again:]))
        kept.check()


def _kill_at(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """The process ends before or behind one of the writes of the next attempt."""
    left, behind = kept.random.randint(1, 5), kept.random.random() < 0.5

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

    patched.setattr(Mirror, "append", dying(Mirror.append))
    patched.setattr(kept.sink, "apply", dying(kept.sink.apply))
    patched.setattr(f"{Maintainer.__module__}.write_attempts", dying(write_attempts))
