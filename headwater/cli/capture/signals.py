"""Signals while capture runs: looked for in a thread, each snapshot in a process of its own.

Nothing in here can stop capture: faults are logged, and it looks again. Snapshots that are not
complete when capture stops are stopped too; the next capture goes on with them.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent
from headwater.cli.capture.snapshot_processes import SnapshotProcesses

if TYPE_CHECKING:
    from cdc.config import Config

_EVERY_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0

log = structlog.get_logger("signals")


class Listener:
    """Listens from ``start`` to ``close``. ``path`` is the configuration, for the snapshots."""

    def __init__(self, config: Config, path: Path) -> None:
        from snapshots.signals import Signals

        self._path = path
        self._snapshots = SnapshotProcesses(self._command)
        self._signals = Signals(config, self._snapshots.add, self._snapshots.withdraw)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking, and what runs."""
        self._closing.set()
        self._snapshots.close()

    def _listen(self) -> None:
        pause_s, again = _EVERY_S, True
        while not self._closing.wait(pause_s):
            try:
                if again:
                    self._signals.interrupted()
                    again = False
                for answer in self._signals.look():
                    log.info(LogEvent.SIGNAL, answer=answer)
                pause_s = _EVERY_S
            except Exception as error:  # a bug in here, too, must not make capture deaf
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                log.warning(LogEvent.SIGNALS_UNREADABLE, reason=_told(error), again_in_s=pause_s)
            self._snapshots.look()

    def _command(self, snapshot_id: int) -> list[str]:
        run = "from headwater.cli.app import main; main()"
        arguments = ["--config", str(self._path), "snapshot", "resume", str(snapshot_id)]
        return [sys.executable, "-c", run, *arguments]


def _told(error: Exception) -> str:
    """Of a bug its kind: the text may quote what somebody wrote."""
    return str(error) if isinstance(error, HeadwaterError) else type(error).__name__
