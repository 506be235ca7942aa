"""Mirrors and their attempts over kills, replays and mirrors written anew, without Spark.

The view is made in Python: orders with their customers' names. What is tried is what is kept from
attempt to attempt; ``tests/spark_maintenance/mirrored.py`` tries all of it, with random views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import PropertyMock, patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import IntegerType, StructField, StructType

from cdc.lsn import Position
from jobs.delta_engine import maintainer
from jobs.delta_engine.maintainer import Maintainer
from jobs.delta_engine.mirrors.attempts import read_attempts, write_attempts
from jobs.delta_engine.mirrors.changes import Changed
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.mirrors.sql import ATTEMPT
from jobs.delta_engine.touched_keys import TouchedKeys
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.without_mirrors.fold import EVENT

CUSTOMERS, ORDERS = "public.customers", "public.orders"
SEEDS = 4
Rows = dict[int, int | None]
Batch = dict[str, list[tuple[int, int | None, bool]]]


class KilledError(BaseException):
    """The process is gone."""


class View:
    """Orders 0 to 2, each of a customer 0 or 1 or of none, who is called by a number."""

    name = "v"

    def __init__(self, home: Path, seed: int) -> None:
        self.random, self.home = Random(seed), home
        self.rows: dict[str, Rows] = {CUSTOMERS: {}, ORDERS: {}}
        self.before: dict[str, Rows] = {}
        self.log: list[Batch] = []
        self.stored: dict[int, tuple[Position, Any]] = {}
        self.mirrors = {name: _mirror(home / name) for name in self.rows}
        with patch.object(maintainer, "Maintenance"), patch.object(maintainer, "Store"):
            self.maintainer = Maintainer(
                cast("Any", None), cast("Any", self), StructType(), self.mirrors, home
            )
        self.maintainer._maintenance = cast("Any", self)
        self.maintainer._store = cast("Any", self)

    def touched(self, _session: Any, changes: Mapping[str, Changed], settled: int) -> pa.Table:
        """As ``Maintenance``."""
        found: set[int] = set()
        for state, images in ((settled, 0), (None, 1)):
            found |= set(changes[ORDERS][images].column("id").to_pylist())
            of = changes[CUSTOMERS][images].select(["id"]).rename_columns(["a"])
            found |= set(self.mirrors[ORDERS].rows(of, state).column("id").to_pylist())
        return pa.table({"id": pa.array(sorted(found), pa.int32())})

    def make_equal(self, keys: pa.Table, at: Position, *_: Any) -> None:
        """As ``Store``."""
        orders = self.mirrors[ORDERS].rows(keys).to_pylist()
        named = {row["id"]: row["a"] for row in self.mirrors[CUSTOMERS].all().to_pylist()
                 if not row[DELETED]}  # fmt: skip
        made: dict[int, Any] = {row["id"]: (row["a"], named.get(row["a"])) for row in orders}
        for key in keys.column("id").to_pylist():
            if key not in self.stored or self.stored[key][0] < at:
                self.stored[key] = at, made.get(key)

    def fill(
        self, at: Position, _oldest_us: Any, _sink: Any, begin: Callable[[pa.Table], Any]
    ) -> pa.Table:
        """As ``Store``."""
        assert not [row for _, row in self.stored.values() if row is not None], "it has none yet"
        orders = [row["id"] for row in self.mirrors[ORDERS].all().to_pylist() if not row[DELETED]]
        keys = pa.table({"id": pa.array(orders, pa.int32())})
        if orders:
            begin(keys)
            self.make_equal(keys, at)
        return keys

    def change(self) -> None:
        """Random changes: what the log has next."""
        batch: Batch = {CUSTOMERS: [], ORDERS: []}
        self.before = {name: dict(rows) for name, rows in self.rows.items()}
        for name, of_table in batch.items():
            rows, keys = self.rows[name], range(2 if name == CUSTOMERS else 3)
            for key in self.random.sample(keys, self.random.randint(0, 2)):
                if key in rows and self.random.random() < 0.4:
                    of_table.append((key, rows.pop(key), True))
                else:
                    rows[key] = self.random.choice((0, 1, None))
                    of_table.append((key, rows[key], False))
        self.log.append(batch)

    def undo(self) -> None:
        """The last changes the other way round."""
        batch: Batch = {CUSTOMERS: [], ORDERS: []}
        for name, rows in self.rows.items():
            before = self.before[name]
            for key in {*before, *rows}:
                if key not in before:
                    batch[name].append((key, rows[key], True))
                elif key not in rows or rows[key] != before[key]:
                    batch[name].append((key, before[key], False))
        self.rows, self.before = self.before, self.rows
        self.log.append(batch)

    def apply(self, first: int, end: int | None = None) -> None:
        """The log from ``first`` to an end, without what is settled."""
        end = len(self.log) if end is None else end
        done = read_attempts(self.home).offsets.get("log", {}).get(0, 0)
        rows = {name: _folded(self.log[:end], max(first, done), name) for name in self.rows}
        self.maintainer.apply(rows, cast("Any", None), "g", 0)
        self.maintainer.settle({"log": {0: end}})

    def check(self) -> None:
        shown = {key: row for key, (_, row) in self.stored.items() if row is not None}
        names = self.rows[CUSTOMERS]
        assert shown == {
            key: (of, None if of is None else names.get(of))
            for key, of in self.rows[ORDERS].items()
        }


def _mirror(path: Path) -> Mirror:
    columns = StructType([StructField("id", IntegerType()), StructField("a", IntegerType())])
    made = Mirror(cast("Any", None), path, columns, ("id",))
    made.prepare()
    return made


def _folded(log: list[Batch], first: int, table: str) -> pa.Table:
    last = {
        row[0]: (row, number)
        for number, batch in enumerate(log[first:], first)
        for row in batch[table]
    }
    made: list[dict[str, Any]] = [
        {"id": key, "a": None if gone else a, DELETED: gone, COMMIT_LSN: number + 1, ORDINAL: 1,
         UNCHANGED: [], EVENT: {"op": "d" if gone else "u", "oldest_us": 1}}
        for key, ((_, a, gone), number) in last.items()
    ]  # fmt: skip
    read = [("read", pa.list_(pa.string())), ("read_lsn", pa.int64())]
    event = pa.struct([("op", pa.string()), ("oldest_us", pa.int64()), *read])
    fields = [("id", pa.int32()), ("a", pa.int32()), (DELETED, pa.bool_())]
    more = [(COMMIT_LSN, pa.int64()), (ORDINAL, pa.int64())]
    schema = pa.schema([*fields, *more, (UNCHANGED, pa.list_(pa.string())), (EVENT, event)])
    return pa.Table.from_pylist(made, schema)


def _rewritten(mirror: Mirror) -> None:
    """As ``Mirror.rewrite``, which takes Spark."""
    held = mirror.all()
    rows = held.filter(pc.invert(held.column(DELETED)))
    attempts = pa.array([0] * len(rows), pa.int64())
    write_deltalake(mirror._path, rows.append_column(ATTEMPT, attempts), mode="overwrite")


@contextmanager
def _dying(view: View) -> Iterator[None]:
    """Before or behind one of the writes."""
    left, behind = view.random.randint(1, 6), view.random.random() < 0.5

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and not behind:
                raise KilledError
            answer = real(*args)
            if left == 0:
                raise KilledError
            return answer

        return run

    with (
        patch.object(Mirror, "append", dying(Mirror.append)),
        patch.object(TouchedKeys, "keep", dying(TouchedKeys.keep)),
        patch.object(view, "make_equal", dying(view.make_equal)),
        patch.object(maintainer, "write_attempts", dying(write_attempts)),
        suppress(KilledError),
    ):
        yield


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_was_killed_or_comes_again_the_view_is_what_it_should_be(
    tmp_path: Path, seed: int
) -> None:
    view = View(tmp_path, seed)
    littered = PropertyMock(side_effect=lambda: view.random.random() < 0.3)
    with patch.object(Mirror, "littered", littered), patch.object(Mirror, "rewrite", _rewritten):
        for _ in range(6):
            view.change()
            first = view.random.randrange(len(view.log))
            while view.random.random() < 0.5:
                with _dying(view):
                    view.apply(first)
                if view.random.random() < 0.7:  # what comes again comes with more
                    view.random.choice((view.change, view.undo))()
            view.apply(first)
            view.check()
            again = view.random.randrange(len(view.log))
            view.apply(again, view.random.randint(again, len(view.log)))
            view.check()
