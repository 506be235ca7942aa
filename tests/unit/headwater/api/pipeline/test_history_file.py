"""The past outlasts the server, and a file that cannot be used costs only the past."""

from __future__ import annotations

import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.api.pipeline import history_file as module
from headwater.api.pipeline.history_file import NAME, Memory
from headwater.pipeline.history import COARSE_S, FINE_S, SPANS
from tests.unit.headwater.pipeline.test_history import BEGIN_S, seen


class Clock:
    def __init__(self) -> None:
        self.now_s = float(BEGIN_S)

    def __call__(self) -> float:
        return self.now_s


def filled(folder: Path, clock: Clock, seconds: int) -> Memory:
    memory = Memory(folder, ["v"], clock)
    for _ in range(seconds):
        memory.add(seen())
        clock.now_s += 1
    return memory


def test_it_outlasts_the_server(tmp_path: Path) -> None:
    clock = Clock()
    memory = filled(tmp_path, clock, 3 * FINE_S + 1)
    before = memory.history(FINE_S, ["v"])
    assert len(before.at_s) == 3
    memory.close()
    clock.now_s += 30
    again = Memory(tmp_path, ["v", "new"], clock)
    assert again.history(FINE_S, ["v"]) == before
    assert set(again.history(FINE_S, ["new"]).series[-1].values) == {None}
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    again.close()


def test_a_long_step_goes_on_when_the_server_was_killed_in_it(tmp_path: Path) -> None:
    clock = Clock()
    memory = Memory(tmp_path, ["v"], clock)
    for second in range(FINE_S + 2):
        memory.add(seen(lag_s=90.0 if second == 1 else 0.0, records_s=1.0))
        clock.now_s += 1
    del memory  # as a kill leaves it
    again = Memory(tmp_path, ["v"], clock)
    assert max(again.freshness("v").shares) > 0, "the view was late before the kill"
    for _ in range(COARSE_S):
        again.add(seen(records_s=3.0))
        clock.now_s += 1
    ((rate,),) = [one.values for one in again.history(COARSE_S, [], "records_s").series]
    assert [one.values for one in again.history(COARSE_S, ["v"], "lag_s").series][-1] == (90.0,)
    assert rate == pytest.approx((FINE_S * 1.0 + (COARSE_S - FINE_S) * 3.0) / COARSE_S, rel=0.01)
    again.close()
    restored = Memory(tmp_path, ["v"], clock)
    assert [one.values for one in restored.history(COARSE_S, ["v"], "lag_s").series][-1] == (90.0,)
    restored.close()


def test_it_keeps_no_more_rows_than_memory_does(tmp_path: Path) -> None:
    clock = Clock()
    memory = Memory(tmp_path, ["v"], clock)
    one = seen()
    for _ in range(SPANS[FINE_S] + 50):
        memory.add(one)
        clock.now_s += FINE_S
    memory.close()
    with sqlite3.connect(tmp_path / NAME) as conn:
        (rows,) = conn.execute("select count(*) from step where length_s = ?", (FINE_S,)).fetchone()
    assert rows <= SPANS[FINE_S]


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database at all" * 1_000)
    clock = Clock()
    memory = filled(tmp_path, clock, 2 * FINE_S)
    assert memory.history(FINE_S, []).at_s
    memory.close()
    assert (tmp_path / NAME).with_suffix(".damaged").exists()
    assert Memory(tmp_path, ["v"], clock).history(FINE_S, []).at_s


def test_what_another_version_wrote_is_left_out(tmp_path: Path) -> None:
    clock = Clock()
    filled(tmp_path, clock, 2 * FINE_S).close()
    with sqlite3.connect(tmp_path / NAME) as conn:
        conn.execute("insert into step values (5, 1, '[]'), (7, 1, '{}'), (300, 2, 'odd')")
        conn.execute("insert into step values (5, 2, '{\"figures\": []}')")
    assert len(Memory(tmp_path, ["v"], clock).history(FINE_S, []).at_s) == 1


def test_without_a_file_it_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = filled(tmp_path / "file" / "below", Clock(), 2 * FINE_S)
    assert memory.history(FINE_S, []).at_s
    memory.close()


def test_a_file_that_could_not_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    clock = Clock()
    with monkeypatch.context() as patched:
        patched.setattr(module, "_write", full)
        memory = filled(tmp_path, clock, 3 * FINE_S)
    for _ in range(61 + FINE_S):
        memory.add(seen())
        clock.now_s += 1
    before = memory.history(FINE_S, ["v"])
    memory.close()
    again = Memory(tmp_path, ["v"], clock)
    assert again.history(FINE_S, ["v"]) == before, "what was not written then is written now"
    again.close()


def test_who_asks_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled, goes_on = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        stalled.set()
        assert goes_on.wait(60)

    monkeypatch.setattr(module, "_write", slow)
    clock = Clock()
    memory = Memory(tmp_path, ["v"], clock)
    memory.add(seen())
    clock.now_s += FINE_S
    with ThreadPoolExecutor(2) as threads:
        adding = threads.submit(memory.add, seen())
        assert stalled.wait(60)
        try:
            assert threads.submit(memory.history, FINE_S, ["v"]).result(30).at_s
            assert threads.submit(memory.freshness, "v").result(30)
        finally:
            goes_on.set()
        adding.result(60)
    memory.close()
