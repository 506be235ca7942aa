"""``benchmarks.peers.spark_merge`` as it is measured: a process of its own, like ours."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.environment import Setting
from benchmarks.views.process import at_of, events, lake
from cdc.errors import FatalError
from stack.child_process import Process, tail

_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.1


class Spans(NamedTuple):
    """How long a run took in s: the whole process, and from the stream's start to the last row."""

    process_s: float
    stream_s: float


def plain_table(setting: Setting, name: str) -> Path:
    """Where it keeps what it makes."""
    return lake(setting) / f"plain_{name}"


def _program(setting: Setting, topic: str, table: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "benchmarks.peers.spark_merge",
        setting.bootstrap,
        topic,
        str(table),
    ]


@contextmanager
def merging(setting: Setting, topic: str, table: Path) -> Iterator[Process]:
    """It runs; stopped at the end."""
    program = _program(setting, topic, table)
    log = setting.log(f"plain-{table.name}")
    process = Process("the plain MERGE", [], log, setting.guardian, program)
    process.start()
    try:
        yield process
    finally:
        process.kill()  # it has nothing to end: its checkpoint is its memory


def await_merged(setting: Setting, process: Process, records: int) -> None:
    """Until it has merged so many records. ``FatalError`` after ten minutes."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (done := max((line["records"] for line in events(process.log, "reached")), default=0)) < (
        records
    ):
        process.check()
        if time.monotonic() > deadline:
            raise FatalError(f"{process.name} has not caught up\n{tail(process.log)}")
        setting.watch(f"{process.name}: catching up", done / records)
        time.sleep(_POLL_S)


def merge_now(setting: Setting, topic: str, table: Path) -> Spans:
    """Everything that the topic holds, in a process of its own, to its end."""
    log = setting.log(f"plain-{table.name}")
    setting.watch("a plain MERGE", 0)
    began = time.monotonic()
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*_program(setting, topic, table), "now"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        setting.guardian.end(child.pid)
        try:
            child.wait(_TIMEOUT_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    took_s = time.monotonic() - began
    if child.returncode:
        raise FatalError(f"the plain MERGE ended with exit code {child.returncode}\n{tail(log)}")
    (started,), *merged = list(events(log, "started")), *events(log, "merged")
    return Spans(took_s, at_of(merged[-1]) - at_of(started))
