"""What a deployment takes of the machine, part by part: CPU and memory of processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from benchmarks import process_usage
from benchmarks.environment import servers_home
from benchmarks.many.footprint import APPLY, CAPTURE, SERVERS, STATE
from stack import servers

_EVERY_S: Final = 5.0
Processes = Callable[[], list[int]]
"""Those that belong to a part now."""


class Taken(NamedTuple):
    """``cpu_cores`` of the whole time, ``rss_mb`` the largest sample, by each process's
    proportional share."""

    cpu_cores: float
    rss_mb: float


class Usage:
    """Of several parts at once, over the same time; ``taken`` is filled once it is over."""

    def __init__(self, parts: Mapping[str, Processes]) -> None:
        self._parts = parts
        self._began, self._cpu_before_s = time.monotonic(), self._cpu_s()
        self._rss_mb = dict.fromkeys(parts, 0.0)
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory")
        self.taken: dict[str, Taken] = {}

    @property
    def of_apply(self) -> Taken:
        """Of ``headwater apply`` together with its state database."""
        both = self.taken[APPLY], self.taken[STATE]
        return Taken(sum(one.cpu_cores for one in both), sum(one.rss_mb for one in both))

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        cpu_s, seconds = self._cpu_s(), time.monotonic() - self._began
        self._halt.set()
        self._thread.join()
        self.taken = {
            part: Taken((cpu_s[part] - before) / seconds, self._rss_mb[part])
            for part, before in self._cpu_before_s.items()
        }

    def _cpu_s(self) -> dict[str, float]:
        return {part: process_usage.cpu_of_s(pids()) for part, pids in self._parts.items()}

    def _sample(self) -> None:
        while True:
            for part, pids in self._parts.items():
                self._rss_mb[part] = max(self._rss_mb[part], process_usage.pss_mb(pids()))
            if self._halt.wait(_EVERY_S):
                return


@contextmanager
def using(parts: Mapping[str, Processes]) -> Iterator[Usage]:
    """What is used while the block runs."""
    usage = Usage(parts)
    usage.start()
    try:
        yield usage
    finally:
        usage.end()


def processes(home: Path, capture: int, apply: int, state: Path) -> dict[str, Processes]:
    """Of each part of a deployment. A state database that runs by itself is found by the folder
    of the state, which its command line names."""

    def of_apply(*, is_state: bool) -> list[int]:
        return [one for one in process_usage.owners(apply, state) if _is_postgres(one) == is_state]

    def of_server(name: str) -> list[int]:
        found = next(one.pid for one in servers.status(servers_home(home)) if one.name == name)
        return [] if found is None else process_usage.tree(found)

    return {
        CAPTURE: lambda: process_usage.tree(capture),
        APPLY: lambda: of_apply(is_state=False),
        STATE: lambda: of_apply(is_state=True),
        **{name: partial(of_server, name) for name in SERVERS},
    }


def _is_postgres(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).name() == "postgres")
    except psutil.NoSuchProcess:
        return False
