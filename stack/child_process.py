"""Child processes: ``headwater`` commands in sessions of their own, with a log each.

A child is told apart only by the pid that started it, and signalled as a process group, so a
Spark job dies with its JVM. What dies without being told to is an error that shows the tail of
the child's log.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cdc.errors import FatalError
from stack.guardian import Guardian

STOP_S = 30.0
TAIL_LINES = 15
TAIL_BYTES = 65_536
LINE_CHARS = 400


class Process:
    """A long-running ``headwater`` command, or another program's, that may be killed and started
    again."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        guardian: Guardian,
        program: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._guardian = guardian
        self._command = [*(headwater() if program is None else program), *arguments]
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running child; 0 when there is none."""
        return self._child.pid if self._child else 0

    def start(self) -> None:
        """Start it, with its output added to the log; it does not outlive us."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guardian.end(self._child.pid)

    def check(self) -> None:
        """Raise ``FatalError`` with the tail of the log when it is not running any more."""
        if self._child and (code := self._child.poll()) is not None:
            self.kill()  # a JVM may outlive its driver
            raise FatalError(f"{self.name} ended unexpectedly, {_ending(code)}\n{tail(self.log)}")

    def kill(self) -> int:
        """``kill -9`` of the whole group: no handler runs. Returns the pid it had."""
        child = self._child
        if child is None:
            return 0
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()
        self._child = None
        return child.pid

    def ask_to_stop(self) -> None:
        """SIGTERM; ``stop`` waits for it."""
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Wait for the end, at most ``STOP_S``, and kill what is left of its group."""
        if self._child:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_S)
        self.kill()


def headwater() -> list[str]:
    """The command line of this very installation."""
    return [sys.executable, "-c", "from headwater.cli.app import main; main()"]


def run(
    name: str, arguments: Sequence[str], log: Path, timeout_s: float, on_wait: Callable[[int], None]
) -> tuple[int, str]:
    """Run a command to its end: ``(exit code, standard output)``; errors go to the log.

    ``on_wait`` hears its pid several times a second. Raises ``FatalError`` after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    output = log.with_suffix(".out")
    with log.open("ab") as errors, output.open("wb") as results:
        child = subprocess.Popen(
            [*headwater(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=results,
            stderr=errors,
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                if time.monotonic() > deadline:
                    raise FatalError(f"{name} took more than {timeout_s:.0f} s\n{tail(log)}")
                on_wait(child.pid)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.1)
        finally:
            if child.poll() is None:
                _signal_group(child.pid, signal.SIGKILL)
                child.wait()
    return child.returncode, output.read_text(encoding="utf-8")


def last_line(log: Path) -> str:
    """The last line of a log; "" where there is none."""
    lines = _end(log).splitlines()
    return lines[-1][:LINE_CHARS] if lines else ""


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, headed by its path."""
    if not log.exists():
        return f"no log at {log}"
    shown = (line[:LINE_CHARS] for line in _end(log).splitlines()[-lines:])
    return "\n".join([f"--- the end of {log}", *shown])


def _end(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _ending(code: int) -> str:
    return f"on signal {-code}" if code < 0 else f"with exit code {code}"
