"""How soon events flow again after ``kill -9`` of capture."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from benchmarks.capture.consumer import Reader, reading
from benchmarks.capture.process import capture_process, slot_of, topic_of
from benchmarks.capture.shapes import USUAL
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import Setting, create_table, init_source
from benchmarks.traffic import Traffic, inserts, traffic
from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from stack.child_process import Process, tail

KILLS: Final = 5
RATE_PER_S: Final = 200
_FLOW_ROWS: Final = 200
"""Between two kills: a second of undisturbed traffic."""
_FLOW_S: Final = 60.0
_TRAFFIC_S: Final = 600
"""Longer than it takes: it is stopped."""
_POLL_S: Final = 0.005


def measure_restart(setting: Setting) -> dict[str, float]:
    """The worst of ``KILLS``: from the new process's start until a row that was committed after
    the kill can be read from Kafka. No row may be missing at the end, or come twice."""
    table, source = "orders_through_kills", "through_kills"
    kills = setting.scaled(KILLS, 1)
    with setting.connect() as conn:
        create_table(conn, USUAL, table)
        init_source(setting, source, table, "--no-snapshot")
        process = capture_process(setting, source)
        with (
            reading(setting.bootstrap, topic_of(source, table)) as reader,
            traffic(setting, table, inserts(table), RATE_PER_S, _TRAFFIC_S) as commits,
        ):
            run = _Run(conn, table, process, reader, commits)
            process.start()
            try:
                restarts = []
                for kill in range(kills):
                    setting.watch(f"kill -9, {kill + 1} of {kills}", kill / kills)
                    restarts.append(run.kill_and_start())
                run.end()
            finally:
                process.ask_to_stop()
                process.stop()
        drop_slot(conn, slot_of(source))
    return {"restart_s": max(restarts)}


class _Run:
    """Capture, who writes and who reads, with one crash after the other."""

    def __init__(
        self, conn: Connection, table: str, process: Process, reader: Reader, commits: Traffic
    ) -> None:
        self._conn, self._table = conn, table
        self._process, self._reader, self._commits = process, reader, commits

    def kill_and_start(self) -> float:
        """Seconds from the start of the new process to its first new event."""
        known = len(self._reader.seen)
        self._await(lambda: len(self._reader.seen) >= known + _FLOW_ROWS, "events to flow")
        self._process.kill()
        newest = self._ask("max(id)")  # above it is only what the dead process never saw
        started_ns = time.monotonic_ns()
        self._process.start()
        self._await(lambda: self._reader.newest > newest, "an event")
        return (self._reader.first_above_ns(newest) - started_ns) / 1e9

    def end(self) -> None:
        """Wait until every committed row was read; ``Reader`` refuses those that come twice."""
        self._commits.stop()
        total = len(self._commits.commits())
        self._await(lambda: len(self._reader.seen) >= total, f"all {total} events")
        if (rows := self._ask("count(*)")) != len(self._reader.seen):
            raise FatalError(f"Kafka has {len(self._reader.seen)} of {rows} rows")

    def _ask(self, what: str) -> int:
        with translated(f"reading {self._table}"):
            row = self._conn.execute(f"select {what} from public.{self._table}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _FLOW_S
        while not condition():
            self._process.check()
            self._reader.check()
            self._commits.check()
            if time.monotonic() > deadline:
                raise FatalError(f"waited {_FLOW_S:.0f} s for {what}\n{tail(self._process.log)}")
            time.sleep(_POLL_S)
