"""A command in a process of its own: no descriptor of others is closed, what it reports may be cut
off or large, and a traceback shows no values."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headwater.api.actions import process as module
from headwater.api.actions.process import Process

_BEGIN = "import json, os, sys; json.load(sys.stdin); r = int(os.environ['HEADWATER_REPORTS']); "


def ran(monkeypatch: pytest.MonkeyPatch, code: str) -> Process:
    """A process of this code, when it has ended."""
    monkeypatch.setattr(module, "_RUN", _BEGIN + code)
    found = Process(Path("headwater.toml"), ())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(found.run(), 60))
    return found


@contextmanager
def files_opened(folder: Path) -> Iterator[list[str]]:
    """Threads that open a file and close it, over and over; what went wrong with one."""
    wrong: list[str] = []
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            mine = [os.open(folder, os.O_RDONLY) for _ in range(20)]
            for one in mine:
                try:
                    os.close(one)
                except OSError as error:
                    wrong.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for one in threads:
        one.start()
    try:
        yield wrong
    finally:
        ended.set()
        for one in threads:
            one.join()


async def turn() -> None:
    """Of the event loop: what was due has run."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_soon(over.set_result, None)
    await over


def test_no_file_of_others_is_closed_when_jobs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RUN", _BEGIN)

    async def jobs() -> list[int]:
        """In the turn of the loop after a job's end, too, a file that was opened then is open."""
        lost = []
        for _ in range(6):
            await asyncio.gather(*(Process(tmp_path, ()).run() for _ in range(3)))
            mine = [os.open(tmp_path, os.O_RDONLY) for _ in range(20)]
            for _ in range(3):
                await turn()
            for one in mine:
                try:
                    os.close(one)
                except OSError:
                    lost.append(one)
        return lost

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with files_opened(tmp_path) as wrong, runner:
        assert runner.run(jobs()) == []
    assert wrong == []


@pytest.mark.parametrize(
    "report",
    ['b\'{"kind": "usa\'', "b'[]'", "b'{\"odd\": 1}'", "b'7'", "b'x' * (2 << 20) + b'\\n'"],
    ids=["cut off", "list", "other", "number", "large"],
)
def test_what_is_no_report_is_passed_over(monkeypatch: pytest.MonkeyPatch, report: str) -> None:
    found = ran(monkeypatch, f"os.write(r, {report}); sys.exit(3)")
    assert (found.code, found.fault) == (3, None)


def test_a_report_of_many_words_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "open(r, 'w').write(json.dumps("
        "{'kind': 'fatal', 'message': 'x' * 200_000, 'hint': ''}) + '\\n')"
    )
    fault: Any = ran(monkeypatch, code).fault
    assert len(fault["message"]) == 200_000


def test_a_process_that_can_no_longer_be_watched_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Process] = []

    async def failing(process: Process, _: object) -> None:
        begun.append(process)
        raise MemoryError

    monkeypatch.setattr(Process, "_reports", failing)
    with pytest.raises(MemoryError):
        ran(monkeypatch, "import time; time.sleep(300)")
    assert begun[0].code == -signal.SIGKILL


def test_a_traceback_shows_the_names_of_exceptions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "exec('''\n"
        "class UniqueViolation(Exception): pass\n"
        'print("step one", file=sys.stderr, flush=True)\n'
        "try:\n"
        '    raise UniqueViolation("duplicate\\\\nDETAIL:  Key (mail)=(ada@secret) exists")\n'
        "except Exception as error:\n"
        '    raise RuntimeError("ada@secret\\\\nerror: ada@secret") from error\n'
        "''')"
    )
    found = ran(monkeypatch, code)
    assert found.code == 1
    assert list(found.steps) == ["step one"]
    assert list(found.errors) == ["it ended with UniqueViolation", "it ended with RuntimeError"]
