"""``headwater capture`` as it is measured: a process of its own, watched from outside.

Nothing is added to what a user runs. When the stream began is a line of capture's log; when an
event was durable is seen from the end of its topic, which is all that is polled meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchmarks import process_usage
from benchmarks.capture.consumer import Log
from benchmarks.environment import Setting
from cdc.errors import FatalError
from cdc.topics import slot_name, table_topic
from stack.child_process import Process, tail

_START_S: Final = 60.0
_POLL_S: Final = 0.02
_SELDOM_S: Final = 0.1
_NEAR: Final = 0.85
_STALLED_S: Final = 120.0
_STREAMING: Final = '"streaming"'


@dataclass(frozen=True, slots=True)
class Capturing:
    """A capture that streams. ``streaming_at`` is in seconds since 1970, as in its log."""

    process: Process
    streaming_at: float
    cpu_before_s: float

    def cpu_s(self) -> float:
        """CPU time since the stream began."""
        return process_usage.cpu_s(self.process.pid) - self.cpu_before_s


def capture_process(setting: Setting, source: str) -> Process:
    """``headwater capture`` of a source, not started."""
    command = ["--config", str(setting.config(source)), "capture", "--json"]
    log = setting.log(f"capture-{source}")
    return Process(f"headwater capture of {source}", command, log, setting.guardian)


@contextmanager
def capturing(setting: Setting, source: str) -> Iterator[Capturing]:
    """``headwater capture`` of a source, streaming; stopped at the end."""
    process = capture_process(setting, source)
    process.start()
    try:
        streaming_at = _await_streaming(process)
        yield Capturing(process, streaming_at, process_usage.cpu_s(process.pid))
    finally:
        process.ask_to_stop()
        process.stop()


def await_count(
    log: Log, count: int, check: Callable[[], None], watch: Callable[[float], None]
) -> tuple[float, int]:
    """When a topic held ``count`` records, in seconds since 1970, and how many it held then.

    ``check`` raises when who writes them has ended, ``watch`` hears which part is there.
    ``FatalError`` when nothing is added for two minutes.
    """
    held, deadline, checked = 0, time.monotonic() + _STALLED_S, 0.0
    while True:
        found, now = log.count(), time.monotonic()
        if found >= count:
            return time.time(), found
        if found > held:
            held, deadline = found, now + _STALLED_S
        elif now > deadline:
            raise FatalError(f"{found} of {count} events in Kafka, and none more comes")
        if now > checked + 1:
            check()
            watch(found / count)
            checked = now
        # Asking costs the broker time: seldom, until the end is near.
        time.sleep(_POLL_S if found > count * _NEAR else _SELDOM_S)


def require_exactly(held: int, rows: int, who: str) -> None:
    """A fast figure over lost or repeated events is not a figure. Raises ``FatalError``."""
    if held != rows:
        raise FatalError(f"{who}: Kafka holds {held} events of {rows} changes")


def slot_of(source: str) -> str:
    """The slot that ``headwater init`` makes for a source; its publication has the same name."""
    return slot_name(source)


def topic_of(source: str, table: str) -> str:
    """The topic of a measured table: Debezium's rule, so a connector's name serves as well."""
    return table_topic(source, "public", table)


def _await_streaming(process: Process) -> float:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        for line in process.log.read_text(encoding="utf-8").splitlines():
            if _STREAMING in line:
                return datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()
        process.check()
        time.sleep(_POLL_S)
    raise FatalError(f"{process.name} does not stream after {_START_S:.0f} s\n{tail(process.log)}")
