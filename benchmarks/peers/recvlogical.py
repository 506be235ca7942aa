"""``pg_recvlogical``: what PostgreSQL's decoding gives to a client that only writes it down."""

from __future__ import annotations

import resource
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.environment import Setting
from benchmarks.report.medians import Run
from cdc.errors import FatalError
from cdc.lsn import format_lsn
from stack.child_process import tail
from stack.postgres import client_binaries

_TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.1
_LAST_BYTES: Final = 16_384
"""More than a wide row."""


def receive(setting: Setting, slot: str, publication: str, end_lsn: int, rows: int) -> Run:
    """To a file, from its start to its end, which it finds by itself at ``end_lsn``."""
    output = setting.home / "recvlogical.out"
    command = [
        str(client_binaries() / "pg_recvlogical"),
        *("--dbname", setting.dsn, "--slot", slot, "--start", "--no-loop"),
        *("--endpos", format_lsn(end_lsn), "--file", str(output)),
        *("--option", "proto_version=1", "--option", f"publication_names={publication}"),
    ]
    log = setting.log(f"recvlogical-{slot}")
    with log.open("wb") as errors:
        cpu_before_s, started = _children_s(), time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            _follow(child, lambda: setting.watch("pg_recvlogical", 0.5))
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        seconds, cpu_s = time.monotonic() - started, _children_s() - cpu_before_s
    if child.returncode:
        raise FatalError(f"pg_recvlogical ended with exit code {child.returncode}\n{tail(log)}")
    if not _ends_with(output, rows):
        raise FatalError(f"pg_recvlogical did not come to row {rows}; see {log}")
    output.unlink()
    return Run(rows / seconds, cpu_s * 1e6 / rows)


def _ends_with(output: Path, row: int) -> bool:
    """Whether the last transaction in the file holds the row: its id, as pgoutput writes it."""
    text = str(row).encode()
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _LAST_BYTES))
        return b"t" + struct.pack(">i", len(text)) + text in file.read()


def _children_s() -> float:
    """CPU time of our children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _follow(child: subprocess.Popen[bytes], watch: Callable[[], None]) -> None:
    """Wait for the end without costing the child anything that shows."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            child.wait(_POLL_S)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise FatalError(f"pg_recvlogical took over {_TIMEOUT_S:.0f} s") from None
            watch()
