"""``headwater capture`` as it is measured: a process of its own, watched from outside.

Nothing is added to what a user runs. When the stream began is a line of capture's log; when the
last event was durable is the time in the first progress mark that counts all of them. Only
PostgreSQL's view of the slot is polled meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks import proc
from benchmarks.setting import Setting, confirmed_lsn
from cdc.broker import Broker
from cdc.errors import FatalError
from cdc.marks import decode_mark
from cdc.postgres import Connection
from cdc.topics import progress_topic, slot_name, table_topic
from demo.processes import Process, tail

_START_S: Final = 60.0
_POLL_S: Final = 0.02
_STALLED_S: Final = 60.0
_STREAMING: Final = '"streaming"'


@dataclass(frozen=True, slots=True)
class Capturing:
    """A capture that streams. Times are seconds since 1970, as in its log."""

    process: Process
    spawned_at: float
    streaming_at: float
    cpu_before_s: float

    def cpu_s(self) -> float:
        """CPU time since the stream began."""
        return proc.cpu_s(self.process.pid) - self.cpu_before_s


@contextmanager
def capturing(setting: Setting, source: str) -> Iterator[Capturing]:
    """``headwater capture`` of a source, streaming; stopped at the end."""
    log = setting.log(f"capture-{source}")
    command = ["--config", str(setting.config(source)), "capture", "--json"]
    process = Process(f"headwater capture of {source}", command, log, setting.guardian)
    spawned_at = time.time()
    process.start()
    try:
        streaming_at = _await_streaming(process, log)
        yield Capturing(process, spawned_at, streaming_at, proc.cpu_s(process.pid))
    finally:
        process.ask_to_stop()
        process.stop()


def await_confirmed(
    setting: Setting, run: Capturing, conn: Connection, slot: str, lsn: int
) -> None:
    """Until the slot's confirmed LSN reaches ``lsn``; ``FatalError`` when it stands still."""
    first = confirmed = confirmed_lsn(conn, slot)
    deadline = time.monotonic() + _STALLED_S
    while confirmed < lsn:
        run.process.check()
        time.sleep(_POLL_S)
        now = confirmed_lsn(conn, slot)
        if now > confirmed:
            deadline = time.monotonic() + _STALLED_S
        elif time.monotonic() > deadline:
            raise FatalError(f"{run.process.name} confirms nothing\n{tail(run.process.log)}")
        confirmed = now
        setting.watch("headwater capture", min(1.0, (confirmed - first) / max(1, lsn - first)))


def durable_at(setting: Setting, source: str, table: str) -> float:
    """When all events of the table were in Kafka: the time of the first mark that says so.

    Raises ``FatalError`` when the topic holds more or fewer events than the table has rows.
    """
    topic, progress = table_topic(source, "public", table), progress_topic(source)
    with Broker(setting.bootstrap) as broker:
        held = sum(broker.end_offsets([topic])[topic].values())
        if held != setting.rows:
            raise FatalError(f"topic {topic} holds {held} events of {setting.rows} changes")
        end = broker.end_offsets([progress])[progress][0]
        start = broker.beginning_offsets([progress])[progress][0]
        for record in broker.read(progress, 0, start, end):
            if record.value is not None:
                mark = decode_mark(record.value, progress)
                if sum(mark.offsets.get(topic, {}).values()) == held:
                    return record.timestamp_ms / 1000
    raise FatalError(f"no mark in {progress} counts all {held} events of {topic}")


def slot_of(source: str) -> str:
    """The slot that ``headwater init`` makes for a source."""
    return slot_name(source)


def _await_streaming(process: Process, log: Path) -> float:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        for line in log.read_text(encoding="utf-8").splitlines():
            if _STREAMING in line:
                return datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()
        process.check()
        time.sleep(_POLL_S)
    raise FatalError(f"{process.name} does not stream after {_START_S:.0f} s\n{tail(log)}")
