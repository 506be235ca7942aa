"""``headwater capture`` as a service manager runs it: a process that is started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from stack.guardian import Guardian

_COMMAND: Final = [sys.executable, "-c", "from cdc.cli.app import main; main()"]
_UNREACHABLE: Final = re.compile(
    r"refused|lost|closed|starting up|shutting down|timeout|timed out|reached|not answer|"
    r"another capture is running|ended the stream|no leader|NodeNotReady|acknowledge|terminat|"
    r"recovery mode|reachable|reset by peer|not yet accepting|postmaster exit"
)
"""What a capture may end with when its servers were away as it started: it is started again."""
_END_S: Final = 60.0
_START_S: Final = 180.0
_LAST_LINES: Final = 12


class CaptureError(Exception):
    """Capture ended by itself, with something else to say than that a server is away."""


class Captured:
    """The capture of one source. ``ended`` counts ends of its own that a restart mends."""

    def __init__(self, config: Path, log: Path, guardian: Guardian) -> None:
        self._config = config
        self._log = log
        self._guardian = guardian
        self._child: subprocess.Popen[bytes] | None = None
        self._said = 0
        self.ended = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._child is not None:
            return
        self._said = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as stream:
            self._child = subprocess.Popen(
                [*_COMMAND, "--config", str(self._config), "capture"],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        self._guardian.end(self._child.pid)

    def mind(self) -> None:
        """Start it again if it ended. Raises ``CaptureError`` when no server was to blame."""
        child = self._child
        if child is None or child.poll() is None:
            return
        self._child = None
        said = self._tail()
        if child.returncode != 1 or not _UNREACHABLE.search(said.splitlines()[-1] if said else ""):
            raise CaptureError(f"capture ended by itself with {child.returncode}:\n{said}")
        self.ended += 1
        self.start()

    def signal(self, number: signal.Signals) -> None:
        """Such as SIGSTOP and SIGCONT."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, number)

    def kill(self) -> None:
        """``kill -9``."""
        self.signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait(_END_S)
        self._child = None

    def stop(self) -> int:
        """SIGTERM, and its exit code. Raises ``CaptureError`` when it does not go."""
        child = self._child
        if child is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            code = child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CaptureError(f"capture is still there {_END_S:.0f} s after SIGTERM") from None
        self._child = None
        return code

    def _tail(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._said)
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def await_streaming(self) -> None:
        """Until it has said so since it was started: on a slow machine faults would else meet
        only captures that are starting."""
        deadline = time.monotonic() + _START_S
        while b"streaming" not in self._log.read_bytes()[self._said :]:
            self.pause(0.05)
            if time.monotonic() > deadline:
                raise CaptureError(f"capture does not stream after {_START_S:.0f} s")

    def pause(self, seconds: float) -> None:
        """Time passes; whatever ends meanwhile is started again."""
        clock = threading.Event()
        for _ in range(max(1, round(seconds / 0.05))):
            self.mind()
            clock.wait(0.05)
