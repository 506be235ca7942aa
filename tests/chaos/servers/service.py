"""``headwater capture`` and ``headwater apply`` as a service manager runs them: processes that are
started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from stack.guardian import Guardian
from tests.chaos.faults.step_kills import VARIABLE
from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child

UNREACHABLE: Final = re.compile(
    r"refused|lost|closed|starting up|shutting down|timeout|timed out|reached|not answer|"
    r"another capture is running|ended the stream|no leader|NodeNotReady|acknowledge|terminat|"
    r"recovery mode|reachable|reset by peer|not yet accepting|postmaster exit|has ended|"
    r"ended before|serves one apply at a time|does not start: Killed"
)
"""What a command may end with when its servers were away as it started: it is started again."""
_END_S: Final = 180.0
_START_S: Final = 300.0
_LAST_LINES: Final = 12


class ServiceError(Exception):
    """A command ended by itself, with something else to say than that a server is away."""


class Ready(NamedTuple):
    """Whether a command is at work by what it has logged since it was started. ``never`` is what it
    may not log, but for ``excused`` lines."""

    at_work: Callable[[bytes], bool]
    never: tuple[bytes, ...] = ()
    excused: Callable[[bytes], bool] = lambda _: False


class Service:
    """A command of one source. ``ended`` counts ends of its own that a restart mends."""

    def __init__(self, verb: str, deployment: Deployment, guardian: Guardian, ready: Ready) -> None:
        self.verb, self.log = verb, deployment.home / f"{verb}.log"
        self.ended = 0
        self.beside: list[Service] = []
        """Whose ends are noticed in the pauses of this one."""
        self._deployment, self._guardian, self._ready = deployment, guardian, ready
        self._child: Child | None = None
        self._said = 0
        self._own_end = False

    def start(self, dies_at: str = "", ends: bool = False) -> None:
        """Start it, unless it runs. ``dies_at``: so that it kills itself at a step
        (``tests.chaos.faults.step_kills``), which ``await_own_kill`` waits for; ``ends``: so that
        ``await_end`` sees it fail."""
        if self._child is not None:
            return
        self._said = self.log.stat().st_size if self.log.exists() else 0
        self._own_end = bool(dies_at) or ends
        dying = {VARIABLE: dies_at} if dies_at else {}
        with self.log.open("a", encoding="utf-8") as stream:
            self._child = self._deployment.start([self.verb], stream, stream, **dying)
        self._guardian.end(self._child.pid)

    def await_own_kill(self, pause: Callable[[float], None], longest_s: float) -> bool:
        """Whether it has killed itself as ``start`` said; if it does not in time, it is killed."""
        died = self._ends(pause, longest_s) == -signal.SIGKILL
        self.kill()
        return died

    def await_end(self, pause: Callable[[float], None], longest_s: float) -> str:
        """What it said before it failed by itself. Raises ``ServiceError`` when it does not."""
        code = self._ends(pause, longest_s)
        self.kill()
        if code != 1:
            raise ServiceError(f"{self.verb} did not fail, but ended with {code}:\n{self._tail()}")
        return self._tail()

    def _ends(self, pause: Callable[[float], None], longest_s: float) -> int | None:
        """Its exit code; None when it has not ended in time."""
        deadline = time.monotonic() + longest_s
        while self._child is not None and self._child.poll() is None:
            if time.monotonic() > deadline:
                return None
            pause(0.1)
        return None if self._child is None else self._child.poll()

    def mind(self) -> None:
        """Start it again if it ended. Raises ``ServiceError`` when no server was to blame."""
        child = self._child
        if child is None or child.poll() is None:
            return
        if self._own_end:
            return  # who started it so waits for it
        self._child = None
        said = self._tail()
        if child.returncode != 1 or not UNREACHABLE.search(said.splitlines()[-1] if said else ""):
            raise ServiceError(f"{self.verb} ended by itself with {child.returncode}:\n{said}")
        self.ended += 1
        self.start()

    def signal(self, number: signal.Signals) -> None:
        """Such as SIGSTOP and SIGCONT."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, number)

    def kill(self, alone: bool = False) -> None:
        """``kill -9`` of it and what it started, or of its own process ``alone``."""
        if alone and self._child is not None:
            self._child.send_signal(signal.SIGKILL)
        else:
            self.signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait(_END_S)
        self._child, self._own_end = None, False

    def stop(self) -> int:
        """SIGTERM, and its exit code. Raises ``ServiceError`` when it does not go."""
        child = self._child
        if child is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            code = child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServiceError(f"{self.verb} is still there {_END_S:.0f} s after SIGTERM") from None
        self._child = None
        return code

    def said(self) -> bytes:
        """What it has logged since it was started."""
        with self.log.open("rb") as file:
            file.seek(self._said)
            return file.read()

    def _tail(self) -> str:
        lines = self.said().decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def await_ready(self) -> None:
        """Until it is at work since it was started, or has killed itself: on a slow machine faults
        would else meet only processes that are starting."""
        deadline = time.monotonic() + _START_S
        while not self._ready.at_work(self.said()):
            self.pause(0.2)
            if self._own_end and self._child is not None and self._child.poll() is not None:
                return
            if wrong := self.wrong():
                raise ServiceError("\n".join(wrong))
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.verb} is not at work after {_START_S:.0f} s")

    def wrong(self) -> list[str]:
        """What it has logged and should not have."""
        lines = self.log.read_bytes().splitlines() if self._ready.never else []
        found = [line for line in lines if any(word in line for word in self._ready.never)]
        found = [line for line in found if not self._ready.excused(line)]
        return [f"{self.verb}: {line.decode('utf-8', 'replace')}" for line in found]

    def pause(self, seconds: float) -> None:
        """Time passes; whatever ends meanwhile is started again."""
        clock = threading.Event()
        for _ in range(max(1, round(seconds / 0.05))):
            for one in (self, *self.beside):
                one.mind()
            clock.wait(0.05)
