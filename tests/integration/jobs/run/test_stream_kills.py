"""A process with a stream is killed, again and again: what it committed, it does not read again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.commands.stream_to_file import lines
from tests.support.events.written_topics import Log, row, v1
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

KILLS, PER_ROUND = 2, 40


@contextmanager
def process(lender: Lender, log: Log, file: Path) -> Iterator[None]:
    """Applies the topic to a file until it is killed."""
    loan = lender.lend()
    command = [
        sys.executable,
        "-m",
        "tests.support.commands.stream_to_file",
        log.bootstrap,
        log.topic,
        str(file),
    ]
    child = subprocess.Popen(command, env={**os.environ, **loan.environ()})
    try:
        yield
        assert child.poll() is None, "it ended by itself"
    finally:
        child.kill()
        child.wait()
        lender.taken_back(loan)


def test_each_record_is_applied_once_whenever_it_is_killed(
    lender: Lender, log: Log, tmp_path: Path
) -> None:
    file, written = tmp_path / "applied", 0
    for _ in range(KILLS):
        with process(lender, log, file):
            before = len(lines(file))
            for id_ in range(written, written + PER_ROUND):
                log.write(v1(100 + id_, 1, row(id_, "x")))
            written += PER_ROUND
            wait_until(partial(_has_more, file, before), "a batch")
    with process(lender, log, file):
        wait_until(lambda: _rows(file) >= written, "all records")
    found = sorted(lsn for _, rows in lines(file) for _, lsn in rows)
    assert found == list(range(100, 100 + written))


def _rows(file: Path) -> int:
    return sum(len(rows) for _, rows in lines(file))


def _has_more(file: Path, than: int) -> bool:
    return len(lines(file)) > than
