"""Commands that are forked are processes like others."""

from __future__ import annotations

import os
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.servers import forked_command
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "out", tmp_path / "err"


def start(run: tuple[Path, Path], *arguments: str) -> Child:
    out, err = run
    with out.open("w") as stdout, err.open("w") as stderr:
        return forked_command.start(arguments, stdout, stderr, os.environ)


def test_a_command_has_its_output_and_its_exit_code(run: tuple[Path, Path]) -> None:
    out, err = run
    assert start(run, "--version").wait() == 0
    assert (out.read_text(), err.read_text()) == (f"headwater {version('headwater')}\n", "")
    assert start(run, "no-such-verb").wait() == 2
    assert "No such command" in err.read_text()


def test_a_command_is_a_session_of_its_own_and_dies_of_a_signal(
    run: tuple[Path, Path], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "config")  # it waits for somebody to write
    process = start(run, "--config", str(tmp_path / "config"), "check")
    assert process.poll() is None
    wait_until(lambda: os.getsid(process.pid) == process.pid, "the session")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    process.kill()
    assert process.poll() == -signal.SIGKILL
