"""Snapshots that run in processes of their own, a few at once; the others wait for their turn."""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile
from typing import IO, Final

import structlog

from cdc.log_events import LogEvent

AT_ONCE: Final = 2
"""Each reads the source with ``snapshot.workers`` sessions and takes 100 MB or more."""

log = structlog.get_logger("signals")


class SnapshotProcesses:
    """One thread calls it, but for ``close``. ``command`` gives the arguments of a snapshot's
    process."""

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        self._command = command
        self._waiting: deque[int] = deque()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._said: dict[int, IO[bytes]] = {}
        self._closed = False
        self._starting = threading.Lock()
        """Held while a process is started: ``close`` finds it, or it is not started."""

    @property
    def running(self) -> list[int]:
        """The snapshots whose processes were started and have not been seen to end."""
        return list(self._children)

    def add(self, snapshot_id: int) -> None:
        """Have it run when it is its turn."""
        if snapshot_id not in self._children and snapshot_id not in self._waiting:
            self._waiting.append(snapshot_id)

    def withdraw(self, snapshot_id: int) -> None:
        """Start no process for it."""
        if snapshot_id in self._waiting:
            self._waiting.remove(snapshot_id)

    def look(self) -> None:
        """Tell of those that have ended, and start the next ones."""
        for snapshot_id, child in list(self._children.items()):
            if child.poll() is not None:
                self._tell(snapshot_id, child)
        while self._waiting and len(self._children) < AT_ONCE:
            with self._starting:
                if self._closed:
                    return
                self._start(self._waiting.popleft())

    def close(self) -> None:
        """Stop what runs, start nothing more."""
        with self._starting:
            self._closed = True
            for child in list(self._children.values()):
                child.terminate()

    def _start(self, snapshot_id: int) -> None:
        # A file: in a pipe that nobody reads until the end, who says much would wait for ever.
        said = self._said[snapshot_id] = TemporaryFile()  # noqa: SIM115 -- closed when it is read
        self._children[snapshot_id] = subprocess.Popen(
            self._command(snapshot_id),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )

    def _tell(self, snapshot_id: int, child: subprocess.Popen[bytes]) -> None:
        del self._children[snapshot_id]
        with self._said.pop(snapshot_id) as file:
            file.seek(0)
            said = file.read().decode(errors="replace").strip().splitlines()
        if child.returncode:
            log.error(LogEvent.SNAPSHOT_FAILED, snapshot=snapshot_id, reason=said[-1:])
        else:
            log.info(LogEvent.SNAPSHOT_COMPLETE, snapshot=snapshot_id)
