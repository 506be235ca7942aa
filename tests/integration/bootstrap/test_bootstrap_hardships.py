"""Building and keeping generations when more is lost than a process: state, a store, a snapshot."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bootstrap import retention as keep
from bootstrap import switch as switching
from bootstrap.build import build
from bootstrap.switch import switch
from cdc.config import Delta
from cdc.errors import HeadwaterError
from cdc.topics import view_group
from jobs.generations.view_locks import turn
from jobs.sinks.delta.generations import DeltaGenerations
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import delete, event, snapshot
from tests.support.events.written_topics import V1, row
from tests.support.views.bootstraps import ALL, Setting
from tests.support.views.snapshot_log import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOUTED = "select id, upper(body) as body from t"


class KilledError(BaseException):
    """The process is gone."""


@pytest.fixture
def lake(spark: SparkSession, table: Table, tmp_path: Path) -> Iterator[Setting]:
    made = Setting(spark, table, Delta(kind="delta", path=str(tmp_path / "lake")), tmp_path)
    yield made
    made.broker.close()


def rows(count: int, body: str) -> list[dict[str, Any]]:
    return [row(i, f"{body} {i}") for i in range(count)]


def show(setting: Setting, number: int) -> None:
    kit = setting.kit()
    with turn(kit.directory, "build", 30):
        switch(kit, number)


def test_a_view_whose_state_is_lost_is_built_beside_what_people_read(cached: Setting) -> None:
    cached.table.write(*rows(20, "a"))
    build(cached.kit())
    before = cached.shown()
    shutil.rmtree(cached.kit().directory)
    cached.table.write(row(1, "changed"))
    seen: list[dict[Any, Any]] = []

    def step(what: str) -> None:
        if what == "applying the stream":  # the new one is loaded
            seen.append(cached.shown())

    kit = cached.kit()
    object.__setattr__(kit, "step", step)
    assert build(kit).generation == 2
    assert seen == [before]
    assert cached.shown() == cached.expected()


def applied(setting: Setting) -> dict[str, HeadwaterError]:
    return apply_views(setting.spark, setting.config, [setting.view], threading.Event(), True)


def test_a_store_that_lost_the_view_is_not_filled_from_the_middle(cached: Setting) -> None:
    cached.table.write(*rows(20, "a"))
    cached.apply_now()
    kit = cached.kit()
    kit.stored(kit.read().of[1]).drop(1)
    cached.table.write(row(1, "changed"))
    for _ in range(2):  # the first try leaves a place, which is not the view either
        error = applied(cached)[cached.view]
        assert "no longer holds" in str(error)
        assert "rebuild" in str(error)
    build(cached.kit())
    cached.table.write(row(2, "changed"))
    cached.apply_now()
    assert cached.shown() == cached.expected()


def test_a_generation_that_is_half_dropped_cannot_be_gone_back_to(
    cached: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached.table.write(*rows(20, "a"))
    for _ in range(2):
        build(cached.kit())

    def killed(_directory: Path) -> None:
        raise KilledError

    monkeypatch.setattr(keep, "forget", killed)
    with pytest.raises(KilledError):
        keep.remove(cached.kit(), 1)
    monkeypatch.undo()
    assert cached.kit().read().retired == []
    assert cached.shown() == cached.expected()
    build(cached.kit())
    assert sorted(cached.kit().read().of) == [2, 3]
    group = view_group(cached.view)
    assert cached.broker.existing_groups([group]) == [group]
    assert keep.clear(cached.kit()) == [2, 3]
    assert cached.broker.existing_groups([group]) == []


def test_a_snapshot_that_was_cancelled_is_taken_anew(cached: Setting) -> None:
    cached.table.write(*rows(20, "a"))
    cached.snapshots.while_read = lambda: (_ for _ in ()).throw(KilledError())
    with pytest.raises(KilledError):
        build(cached.kit())
    cached.snapshots.cancelled.add("1")
    cached.snapshots.while_read = lambda: None
    assert build(cached.kit()).live
    assert cached.snapshots.started == ["1", "2"]
    assert cached.shown() == cached.expected()


def test_what_a_killed_switch_left_is_not_taken_for_the_generation(
    lake: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table.write(*rows(20, "a"))
    build(lake.kit())
    lake.declare(SHOUTED)
    show_it = DeltaGenerations._show

    def killed(self: DeltaGenerations, number: int, path: str, mark: str) -> None:
        show_it(self, number, path, mark)
        raise KilledError

    monkeypatch.setattr(switching, "_undo", lambda _kit: None)  # the dead undo nothing
    monkeypatch.setattr(DeltaGenerations, "_show", killed)
    with pytest.raises(KilledError):
        build(lake.kit())
    monkeypatch.undo()
    lake.table.write(row(3, "later"))
    lake.apply_now()
    assert lake.shown()[3] == "LATER"
    lake.declare(ALL)
    show(lake, 1)
    lake.declare(SHOUTED)
    show(lake, 2)
    assert lake.shown()[3] == "LATER"


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_row_read_before_it_was_deleted_does_not_come_back(lake: Setting, together: bool) -> None:
    """Where a table joins, rows read at its LSN come behind changes from after it."""
    at, schema_id = 2000, V1.schema_id()
    streamed = [
        event(at + 8, 1, row(100, "streamed"), schema_id=schema_id),
        *(part for i in range(20) for part in delete(at + 16, i + 1, row(i, "old"), schema_id)),
        event(at + 32, 1, row(3, "again"), schema_id=schema_id),
    ]
    read = [snapshot(at, row(i, "old"), schema_id) for i in range(40)]
    lake.declare(ALL, max_offsets_per_trigger=50)
    lake.table.log.write(*streamed)
    if not together:
        lake.apply_now()
    lake.table.log.write(*read)
    lake.apply_now()
    wanted = dict.fromkeys(range(20, 40), "old")
    assert lake.shown() == {3: "again", 100: "streamed", **wanted}
