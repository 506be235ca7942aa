"""Where a history deletes what its store has and its mirror has not."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from cdc.lsn import Position
from jobs.run.views import histories
from jobs.run.views.histories import HistoryKeeper
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, ViewRow
from jobs.state.histories.queue import UNTOLD, Queued
from jobs.state.histories.rows import HistoryRows

COLUMNS = StructType().add("id", IntegerType()).add("name", StringType())
AT = Queued(7, 3, 100, 0, 5, UNTOLD, True, 1, None)


class Found:
    """The rows of a mirror, and what it remembers of keys."""

    left_out: tuple[()] = ()

    def __init__(self, rows: dict[int, Position], deleted: dict[int, Position]) -> None:
        self._rows, self._deleted = rows, deleted

    def __iter__(self) -> Iterator[list[tuple[Any, ...]]]:
        yield [(*at, [str(key), "x"], None) for key, at in self._rows.items()]

    def last_known(self) -> Iterator[list[tuple[Any, ...]]]:
        known = {**self._rows, **self._deleted}
        yield [(*at, [str(key), None], None) for key, at in known.items()]


def deletes(
    monkeypatch: pytest.MonkeyPatch,
    stored: dict[int, Position],
    rows: dict[int, Position],
    deleted: dict[int, Position],
) -> dict[int, Position]:
    monkeypatch.setattr(histories, "columns_of", lambda *_: COLUMNS)
    history = SimpleNamespace(
        id=1, shape=1, view=SimpleNamespace(plan=SimpleNamespace(key=("id",)))
    )
    kept = [ViewRow((key,), at, {"id": key, "name": "x"}) for key, at in stored.items()]
    keeper = HistoryKeeper(cast(Any, history), cast(Any, SimpleNamespace(scan=lambda: iter(kept))))
    table = keeper._untold(cast(Any, None), AT, cast(HistoryRows, Found(rows, deleted)))
    found = table.select(["id", COMMIT_LSN, ORDINAL, DELETED]).to_pylist()
    return {row["id"]: Position(row[COMMIT_LSN], row[ORDINAL]) for row in found if row[DELETED]}


def test_a_key_that_nobody_remembers_is_gone_where_it_may_come_back_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its partition may be behind: other keys have changes above that of its return."""
    stored = {1: Position(10, 1), 2: Position(900, 4), 3: Position(200, 3), 4: Position(10, 2)}
    found = deletes(monkeypatch, stored, {2: Position(900, 4)}, {4: Position(150, 6)})
    assert found == {1: Position(100, 0), 3: Position(200, 4), 4: Position(150, 6)}
