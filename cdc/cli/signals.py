"""Signals while capture runs: looked for in a thread, each snapshot in a process of its own.

Nothing in here can stop capture: faults are logged, and it looks again. Snapshots that run when
capture stops are stopped too; the next capture goes on with them.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

import structlog

from cdc.errors import HeadwaterError

if TYPE_CHECKING:
    from cdc.config import Config

_EVERY_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0

log = structlog.get_logger("signals")


class Listener:
    """Listens from ``start`` to ``close``. ``path`` is the configuration, for the snapshots."""

    def __init__(self, config: Config, path: Path) -> None:
        from snapshots.signals import Signals

        self._signals = Signals(config, self._launch)
        self._path = path
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._said: dict[int, IO[bytes]] = {}

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking, and what runs."""
        self._closing.set()
        for child in list(self._children.values()):
            child.terminate()

    def _listen(self) -> None:
        pause_s, again = _EVERY_S, True
        while not self._closing.wait(pause_s):
            try:
                if again:
                    self._signals.interrupted()
                    again = False
                for answer in self._signals.look():
                    log.info("signal", answer=answer)
                pause_s = _EVERY_S
            except Exception as error:  # a bug in here, too, must not make capture deaf
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                log.warning("signals cannot be read", reason=_told(error), again_in_s=pause_s)
            self._reap()

    def _launch(self, snapshot_id: int) -> None:
        if self._closing.is_set() or snapshot_id in self._children:
            return
        run = "from cdc.cli.app import main; main()"
        arguments = ["--config", str(self._path), "snapshot", "resume", str(snapshot_id)]
        # A file: in a pipe that nobody reads until the end, who says much would wait for ever.
        said = self._said[snapshot_id] = TemporaryFile()  # noqa: SIM115 -- closed when it is read
        self._children[snapshot_id] = subprocess.Popen(
            [sys.executable, "-c", run, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )

    def _reap(self) -> None:
        for snapshot_id, child in list(self._children.items()):
            if child.poll() is None:
                continue
            del self._children[snapshot_id]
            with self._said.pop(snapshot_id) as file:
                file.seek(0)
                said = file.read().decode(errors="replace").strip().splitlines()
            if child.returncode:
                log.error("a snapshot failed", snapshot=snapshot_id, reason=said[-1:])
            else:
                log.info("a snapshot is complete", snapshot=snapshot_id)


def _told(error: Exception) -> str:
    """Of a bug its kind: the text may quote what somebody wrote."""
    return str(error) if isinstance(error, HeadwaterError) else type(error).__name__
