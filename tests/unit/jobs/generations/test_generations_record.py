"""What is remembered of a view's generations, without stores."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from bootstrap.retention import forget
from cdc.errors import ViewError
from jobs.generations.locks import Holder, is_free, turn
from jobs.generations.record import (
    Generations,
    read_generations,
    settled,
    write_generations,
)
from jobs.generations.view_state import Declaration, open_state, state_directory

OLD = Declaration("SELECT * FROM t", ("id",), "cache", "public.t")
NEW = OLD._replace(sql="SELECT id FROM t")
OFFSETS = {"shop.public.t": {0: 5, 1: 7}}


def with_first_live() -> Generations:
    return Generations().noted(OLD, OFFSETS, 10).intending(1, "").switched(20)


def test_a_first_generation_is_built_and_becomes_live() -> None:
    begun = Generations().noted(OLD, OFFSETS, 10)
    assert begun.live is None
    assert begun.building is begun.of[1]
    live = begun.intending(1, "").switched(20)
    assert live.building is None
    assert live.live is not None
    assert (live.live.number, live.live.live_s) == (1, 20)


def test_a_switch_keeps_the_generation_it_leaves_with_the_way_back() -> None:
    switched = with_first_live().noted(NEW, OFFSETS, 30).intending(2, "57").switched(40)
    assert switched.live is switched.of[2]
    (kept,) = switched.kept
    assert (kept.number, kept.mark, kept.left_s) == (1, "57", 40)
    back = switched.intending(1, "60").switched(50)
    assert back.live is back.of[1]
    assert back.kept[0].mark == "60"


@pytest.mark.parametrize(("shown", "live"), [(2, 2), (1, 1), (None, 1)])
def test_an_interrupted_switch_is_what_the_store_shows(shown: int | None, live: int) -> None:
    begun = with_first_live().noted(NEW, OFFSETS, 30).intending(2, "")
    left = settled(begun, lambda: shown, 40)
    assert left.switching is None
    assert left.live is left.of[live]


def test_without_a_switch_the_store_is_not_asked() -> None:
    found = with_first_live()
    assert settled(found, lambda: 1 // 0, 40) is found


def test_generations_expire_by_number_and_by_age() -> None:
    found = with_first_live()
    for number in (2, 3, 4):
        found = found.noted(NEW, OFFSETS, number).intending(number, "").switched(100 * number)
    assert [one.number for one in found.kept] == [3, 2, 1]
    assert [one.number for one in found.expired(1, 1000, 500)] == [2, 1]
    assert [one.number for one in found.expired(9, 250, 500)] == [1]
    assert [one.number for one in found.expired(0, 1000, 500)] == [3, 2, 1]
    assert [one.number for one in found.without(2).kept] == [3, 1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = with_first_live().noted(NEW, OFFSETS, 30)
    found = found.changed(2, phase="read", snapshot="7", points=(90, 80), rows=12, clean=False)
    write_generations(tmp_path / "v", found)
    assert read_generations(tmp_path / "v") == found
    assert found.of[2].beginning == (OFFSETS, 80, 90, {})


def test_a_view_that_apply_made_is_the_first_generation(tmp_path: Path) -> None:
    assert read_generations(tmp_path) == Generations()
    state = open_state(tmp_path, OLD)
    assert read_generations(tmp_path) == Generations()  # never applied
    state.checkpoint.mkdir()
    live = read_generations(tmp_path).live
    assert live is not None
    assert (live.number, live.declared) == (1, OLD)


def test_a_file_of_somebody_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "generations.json").write_text(json.dumps({"generations": [{}]}))
    with pytest.raises(ViewError, match="not as Headwater writes it"):
        read_generations(tmp_path)


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

    monkeypatch.setattr("jobs.generations.locks.os.write", full)
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
