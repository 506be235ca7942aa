"""A process is ours only while its pid and its start time fit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.errors import StackError
from stack import process
from stack.process import Process
from tests.support.waiting import wait_until


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    started = process.spawn(["sleep", "600"], tmp_path / "log", tmp_path, os.environ)
    yield started
    process.kill(started)


def test_a_started_process_is_alive_until_it_is_killed(sleeper: Process) -> None:
    assert process.alive(sleeper)
    process.kill(sleeper)
    assert not process.alive(sleeper)


def test_a_child_that_ended_is_dead_though_nobody_reaped_it(sleeper: Process) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: process.started_at(sleeper.pid) is None, "the zombie to count as ended")
    assert not process.alive(sleeper)


def test_a_pid_that_was_given_to_another_process_is_neither_alive_nor_signalled(
    sleeper: Process,
) -> None:
    reused = Process(sleeper.pid, "some other time")
    assert not process.alive(reused)
    process.send(reused, signal.SIGKILL)
    process.kill(reused)
    assert process.alive(sleeper)


def test_nothing_is_not_alive() -> None:
    assert not process.alive(None)
    process.kill(None)


def test_a_kill_takes_the_children_along(tmp_path: Path) -> None:
    parent = process.spawn(["sh", "-c", "sleep 600 & wait"], tmp_path / "log", tmp_path, os.environ)
    wait_until(lambda: process.descendants(parent.pid), "the child to start")
    [child] = process.descendants(parent.pid)
    process.kill(parent)
    assert not process.alive(child)


def test_what_a_process_says_is_in_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('out'); raise SystemExit('err')"]
    started = process.spawn(command, tmp_path / "log", tmp_path, os.environ)
    assert process.wait_gone(started, 30)
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_a_missing_binary_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="/nowhere/server cannot be started"):
        process.spawn(["/nowhere/server"], tmp_path / "log", tmp_path, os.environ)
