"""What is remembered of a view's generations, without stores."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from bootstrap.retention import forget
from cdc.errors import FatalError, ViewError
from jobs.generations.declaration import Declaration
from jobs.generations.generation_record import (
    MOVES,
    PHASES,
    Generation,
    Generations,
    Phase,
    read_generations,
    settled,
    write_generations,
)
from jobs.generations.view_locks import Holder, is_free, turn
from jobs.generations.view_state import open_state, state_directory

OLD = Declaration("SELECT * FROM t", ("id",), "cache", "public.t")
NEW = OLD._replace(sql="SELECT id FROM t")
OFFSETS = {"shop.public.t": {0: 5, 1: 7}}


def loaded(found: Generations, wanted: Declaration, now_s: float) -> Generations:
    """With a new generation that can be switched to."""
    begun = found.planned(wanted, OFFSETS, now_s)
    assert begun.building is not None
    return begun.moved(begun.building.number, "loaded")


def with_first_live() -> Generations:
    return loaded(Generations("v"), OLD, 10).intending(1, "").switched(20)


def test_a_first_generation_is_built_and_becomes_live() -> None:
    begun = loaded(Generations("v"), OLD, 10)
    assert begun.live is None
    assert begun.building is begun.of[1]
    live = begun.intending(1, "").switched(20)
    assert live.building is None
    assert live.live is not None
    assert (live.live.number, live.live.live_s) == (1, 20)


def test_a_switch_keeps_the_generation_it_leaves_with_the_way_back() -> None:
    switched = loaded(with_first_live(), NEW, 30).intending(2, "57").switched(40)
    assert switched.live is switched.of[2]
    (left,) = switched.retired
    assert (left.number, left.mark, left.retired_s) == (1, "57", 40)
    back = switched.intending(1, "60").switched(50)
    assert back.live is back.of[1]
    assert back.retired[0].mark == "60"


@pytest.mark.parametrize(("shown", "live"), [(2, 2), (1, 1), (None, 1)])
def test_an_interrupted_switch_is_what_the_store_shows(shown: int | None, live: int) -> None:
    begun = loaded(with_first_live(), NEW, 30).intending(2, "")
    left = settled(begun, lambda: shown, 40)
    assert left.switching is None
    assert left.live is left.of[live]


def test_without_a_switch_the_store_is_not_asked() -> None:
    found = with_first_live()
    assert settled(found, lambda: 1 // 0, 40) is found


def test_generations_expire_by_number_and_by_age() -> None:
    found = with_first_live()
    for number in (2, 3, 4):
        found = loaded(found, NEW, number).intending(number, "").switched(100 * number)
    assert [one.number for one in found.retired] == [3, 2, 1]
    assert [one.number for one in found.expired(1, 1000, 500)] == [2, 1]
    assert [one.number for one in found.expired(9, 250, 500)] == [1]
    assert [one.number for one in found.expired(0, 1000, 500)] == [3, 2, 1]
    assert [one.number for one in found.without(2).retired] == [3, 1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = with_first_live().planned(NEW, OFFSETS, 30)
    found = found.moved(2, "snapshotting", snapshot="7")
    found = found.moved(2, "snapshotted", points=(90, 80), rows=12, clean=False)
    write_generations(tmp_path / "v", found)
    assert read_generations(tmp_path / "v") == found
    assert found.of[2].beginning == (OFFSETS, 80, 90, {})


def test_a_view_that_apply_made_is_the_first_generation(tmp_path: Path) -> None:
    assert read_generations(tmp_path) == Generations(tmp_path.name)
    state = open_state(tmp_path, OLD)
    assert read_generations(tmp_path) == Generations(tmp_path.name)  # never applied
    state.checkpoint.mkdir()
    live = read_generations(tmp_path).live
    assert live is not None
    assert (live.number, live.declared) == (1, OLD)


def test_a_file_of_somebody_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "generations.json").write_text(json.dumps({"generations": [{}]}))
    with pytest.raises(ViewError, match="not a valid record of generations"):
        read_generations(tmp_path)


def test_a_phase_that_is_not_known_is_told_with_its_generation(tmp_path: Path) -> None:
    write_generations(tmp_path / "v", with_first_live())
    file = tmp_path / "v" / "generations.json"
    file.write_text(file.read_text().replace('"live"', '"kept"'))
    with pytest.raises(ViewError, match=r"generations.json .*1 has the unknown phase 'kept'"):
        read_generations(tmp_path / "v")


@pytest.mark.parametrize("before", PHASES)
@pytest.mark.parametrize("then", PHASES)
def test_a_generation_moves_as_the_table_says_and_no_other_way(before: Phase, then: Phase) -> None:
    found = Generations("v", {3: Generation(3, before, OLD)})
    if then in MOVES[before]:
        assert found.moved(3, then, rows=7).of[3] == Generation(3, then, OLD, rows=7)
        return
    with pytest.raises(FatalError) as refused:
        found.moved(3, then)
    assert refused.value.message == f"view v: generation 3 is {before} and cannot become {then}"


def test_every_phase_is_reached_and_every_one_can_be_dropped() -> None:
    assert {then for after in MOVES.values() for then in after} == {*PHASES} - {"planned"}
    assert all("dropping" in after for after in MOVES.values())


def test_a_stream_s_beginning_outlives_its_checkpoint(tmp_path: Path) -> None:
    built = with_first_live().changed(1, points=(8,)).of[1]
    state = open_state(state_directory(tmp_path, 2), OLD, built.beginning)
    assert open_state(tmp_path / "2", OLD).beginning() == state.beginning() == (OFFSETS, 8, 8, {})
    assert open_state(tmp_path, OLD).beginning() is None


def test_one_at_a_time_has_its_turn(tmp_path: Path) -> None:
    with turn(tmp_path, "stream", 0) as mine:
        assert mine
        assert not is_free(tmp_path, "stream")
        assert is_free(tmp_path, "build")
        busy = pytest.raises(ViewError, match=rf"pid {os.getpid()}, since 2\S+Z\) applies it")
        with busy, turn(tmp_path, "stream", 0):
            pass
        with turn(tmp_path, "stream", 60, lambda: True) as mine:
            assert not mine


def test_a_disk_without_room_takes_no_lock_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jobs.generations.view_locks.os.write", full)
    with turn(tmp_path, "stream", 0) as mine:
        assert mine
        assert not is_free(tmp_path, "stream")
        busy = pytest.raises(ViewError, match="another headwater applies it")
        with busy, turn(tmp_path, "stream", 0):
            pass


def test_who_asks_for_a_lock_writes_nothing(tmp_path: Path) -> None:
    """It may be another user: an application that waits for its own writes."""
    assert is_free(tmp_path / "v", "stream")
    assert not (tmp_path / "v").exists()


def test_who_waits_for_another_is_told_once_for_whom(tmp_path: Path) -> None:
    told: list[Holder | None] = []
    with (
        turn(tmp_path, "stream", 0),
        turn(tmp_path, "stream", 60, lambda: bool(told), told.append) as mine,
    ):
        assert not mine
    assert [one and one.pid for one in told] == [os.getpid()]


def test_a_lock_is_free_when_whoever_had_it_gives_it_back(tmp_path: Path) -> None:
    with turn(tmp_path, "stream", 0):
        pass
    assert is_free(tmp_path, "stream")


def test_of_a_dropped_generation_nothing_stays_on_disk(tmp_path: Path) -> None:
    first, second = tmp_path, state_directory(tmp_path, 2)
    for directory in (first, second):
        for part in ("checkpoint/offsets/0", "mirrors/public.t/0.parquet", "view.json"):
            file = directory / part
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
    forget(first)
    assert list(first.iterdir()) == [second]
    forget(second)
    assert list(first.iterdir()) == []
