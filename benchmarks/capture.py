"""Capture's speed against ``pg_recvlogical``'s, and its memory in a large transaction.

Both read the same WAL, which is there before they start, from the same LSN: every run has a slot
of its own, made before the first row was inserted. They take turns, so that what disturbs the
machine disturbs both.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from statistics import median
from typing import Final, NamedTuple

from benchmarks import proc
from benchmarks.capturing import await_confirmed, capturing, durable_at, slot_of
from benchmarks.metrics import REPEATS
from benchmarks.setting import Setting, create_table, init_source, load
from cdc.errors import FatalError
from cdc.lsn import format_lsn
from cdc.postgres import Connection, translated
from stack.postgres import client_binaries

TRANSACTION_ROWS: Final = 1_000
_RECEIVE_TIMEOUT_S: Final = 300.0


class _Captured(NamedTuple):
    """One run of capture, in seconds."""

    seconds: float
    with_start_s: float
    cpu_s: float


class _Received(NamedTuple):
    """One run of ``pg_recvlogical``."""

    seconds: float
    bytes: int


def measure_capture(setting: Setting) -> dict[str, float]:
    """Changes a second of capture and of its peer; medians of ``REPEATS`` runs each."""
    table, rows = "orders_streamed", setting.rows
    sources = [f"stream{i}" for i in range(REPEATS)]
    with setting.connect() as conn:
        create_table(conn, table)
        for source in sources:
            init_source(setting, source, table, "--no-snapshot")
            _create_slot(conn, _peer_slot(source))
        target = load(setting, conn, table, TRANSACTION_ROWS)
        captured, received = [], []
        for source in sources:
            received.append(_receive(setting, conn, source, target))
            captured.append(_capture(setting, conn, source, table, target))
    capture_s = median(run.seconds for run in captured)
    receive_s = median(run.seconds for run in received)
    return {
        "capture_changes_per_s": rows / capture_s,
        "capture_with_start_changes_per_s": rows / median(run.with_start_s for run in captured),
        "recvlogical_changes_per_s": rows / receive_s,
        "capture_vs_recvlogical": receive_s / capture_s,
        "capture_cpu_s_per_million": median(run.cpu_s for run in captured) * 1e6 / rows,
        "recvlogical_bytes_per_change": received[0].bytes / rows,
    }


def measure_memory(setting: Setting) -> dict[str, float]:
    """Capture's peak resident size while one transaction of all rows goes through."""
    table, source = "orders_at_once", "memory"
    with setting.connect() as conn:
        create_table(conn, table)
        init_source(setting, source, table, "--no-snapshot")
        target = load(setting, conn, table, setting.rows)
        with capturing(setting, source) as run:
            await_confirmed(setting, run, conn, slot_of(source), target)
            peak_mb = proc.peak_rss_mb(run.process.pid)
        _drop_slot(conn, slot_of(source))
    durable_at(setting, source, table)  # every event is there, or the figure means nothing
    return {"capture_rss_mb": peak_mb}


def _capture(setting: Setting, conn: Connection, source: str, table: str, target: int) -> _Captured:
    with capturing(setting, source) as run:
        await_confirmed(setting, run, conn, slot_of(source), target)
        cpu_s = run.cpu_s()
    _drop_slot(conn, slot_of(source))
    end = durable_at(setting, source, table)
    return _Captured(end - run.streaming_at, end - run.spawned_at, cpu_s)


def _receive(setting: Setting, conn: Connection, source: str, target: int) -> _Received:
    """``pg_recvlogical`` to a file, from its start to its end, which it finds by itself."""
    output = setting.home / "recvlogical.out"
    command = [
        str(client_binaries() / "pg_recvlogical"),
        *("--dbname", setting.dsn, "--slot", _peer_slot(source), "--start", "--no-loop"),
        *("--endpos", format_lsn(target), "--file", str(output)),
        *("--option", "proto_version=1", "--option", f"publication_names={slot_of(source)}"),
    ]
    setting.watch("pg_recvlogical", 0)
    log = setting.log(f"recvlogical-{source}")
    expected_bytes = setting.rows * 300
    with log.open("wb") as errors:
        started = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            _follow(child, lambda: _size(output) / expected_bytes, setting)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        seconds = time.monotonic() - started
    if child.returncode:
        raise FatalError(f"pg_recvlogical ended with exit code {child.returncode}; see {log}")
    received = _Received(seconds, _size(output))
    output.unlink()
    _drop_slot(conn, _peer_slot(source))
    return received


def _follow(child: subprocess.Popen[bytes], done: Callable[[], float], setting: Setting) -> None:
    """Wait for the end without costing the child anything that shows."""
    deadline = time.monotonic() + _RECEIVE_TIMEOUT_S
    while True:
        try:
            child.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise FatalError(f"pg_recvlogical took over {_RECEIVE_TIMEOUT_S:.0f} s") from None
            setting.watch("pg_recvlogical", min(1.0, done()))


def _size(path: os.PathLike[str]) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0


def _peer_slot(source: str) -> str:
    return f"peer_{source}"


def _create_slot(conn: Connection, slot: str) -> None:
    with translated(f"creating slot {slot}"):
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


def _drop_slot(conn: Connection, slot: str) -> None:
    """A slot that nobody reads would keep the WAL of the next measurements."""
    with translated(f"dropping slot {slot}"):
        conn.execute("select pg_drop_replication_slot(%s)", (slot,))
