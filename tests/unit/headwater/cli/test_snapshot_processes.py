"""How many snapshots that signals asked for run at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.capture.snapshot_processes import AT_ONCE, SnapshotProcesses
from tests.support.waiting import wait_until

UNTIL_TOLD = """
import sys, time, pathlib
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[SnapshotProcesses]:
    """Each runs until a file of the snapshot's number is there."""
    made = SnapshotProcesses(
        lambda one: [sys.executable, "-c", UNTIL_TOLD, str(tmp_path / f"{one}")]
    )
    yield made
    made.close()


def test_a_few_run_at_once_and_the_others_wait_for_their_turn(
    processes: SnapshotProcesses, tmp_path: Path
) -> None:
    for number in (1, 2, 3, 4, 4):
        processes.add(number)
    processes.look()
    assert processes.running == [1, 2]
    assert AT_ONCE == 2
    processes.withdraw(3)
    (tmp_path / "1").touch()

    def next_one() -> bool:
        processes.look()
        return processes.running == [2, 4]

    wait_until(next_one, "the one that was not withdrawn")


def test_nothing_is_started_when_it_is_closed(processes: SnapshotProcesses) -> None:
    processes.close()
    processes.add(1)
    processes.look()
    assert processes.running == []


def test_what_is_being_started_when_it_is_closed_does_not_outlive_it(tmp_path: Path) -> None:
    def command(_: int) -> list[str]:
        closing.start()  # after the look whether it is closed, before there is a process
        closing.join(0.5)
        return [sys.executable, "-c", UNTIL_TOLD, str(tmp_path / "never")]

    processes = SnapshotProcesses(command)
    closing = threading.Thread(target=processes.close)
    processes.add(1)
    processes.look()
    closing.join(10)

    def ended() -> bool:
        processes.look()
        return processes.running == []

    try:
        wait_until(ended, "the process to be stopped")
    finally:
        processes.close()
