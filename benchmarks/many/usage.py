"""What ``headwater apply`` takes of the machine: its processes and those of its state database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import process_usage

_EVERY_S: Final = 5.0


class Usage:
    """Of a process, all below it, and all whose command line names its state folder, with those
    below them: a state database that runs by itself is among them."""

    def __init__(self, pid: int, state: Path) -> None:
        self._pid, self._state = pid, state
        self._began, self._cpu_before_s = time.monotonic(), self._cpu_s()
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory")
        self.cpu_cores = 0.0
        """Of the whole time, once it is over."""
        self.rss_mb = 0.0
        """The largest of its samples, by each process's proportional share."""

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.cpu_cores = (self._cpu_s() - self._cpu_before_s) / (time.monotonic() - self._began)
        self._halt.set()
        self._thread.join()

    def _cpu_s(self) -> float:
        return process_usage.cpu_of_s(process_usage.owners(self._pid, self._state))

    def _sample(self) -> None:
        while True:
            found = process_usage.pss_mb(process_usage.owners(self._pid, self._state))
            self.rss_mb = max(self.rss_mb, found)
            if self._halt.wait(_EVERY_S):
                return


@contextmanager
def using(pid: int, state: Path) -> Iterator[Usage]:
    """What is used while the block runs."""
    usage = Usage(pid, state)
    usage.start()
    try:
        yield usage
    finally:
        usage.end()
