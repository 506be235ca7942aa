"""A guardian ends what a killed run would leave behind.

Servers outlive the process that starts them, and SIGKILL gives a run (of the tests, the demo, the
benchmarks) no moment to stop its own. So the run has a guardian: a process in a session of its
own that reads what it will have to end from a pipe. The system closes that pipe when the run is
gone, however it went, and only then the guardian acts. ``release`` sends it away before.
``headwater up`` has none: its servers are to stay.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from cdc.errors import StackError
from stack import leftovers, process, servers
from stack.process import Process

_COMMAND = (sys.executable, "-m", "stack.guardian")


class Guardian:
    """Of this process. What it is told is done in that order, once this process is gone."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def end(self, pid: int) -> None:
        """Kill a process and all below it, if it is still the same."""
        started = process.started_at(pid)
        if started is not None:
            self._tell("end", str(pid), started)

    def stop(self, home: Path) -> None:
        """Stop the servers of a home; their data stays."""
        self._tell("stop", str(home.resolve()))

    def purge(self, folder: Path) -> None:
        """Stop and delete the servers of every home at or below a folder."""
        self._tell("purge", str(folder.resolve()))

    def delete(self, folder: Path) -> None:
        """Delete a folder with all that is in it."""
        self._tell("delete", str(folder.resolve()))

    def release(self) -> None:
        """The run has cleaned up: nothing is to be done. Another word starts a new guardian."""
        if self._child is not None:
            with contextlib.suppress(StackError):
                self._tell("leave")
            self._child.communicate()
            self._child = None

    def _tell(self, *words: str) -> None:
        if self._child is None:
            self._child = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # else who reads our output would wait for its end
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is not for it
                text=True,
            )
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(words) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise StackError(
                "the process that guards this run has ended", "start the command again"
            ) from None


def main() -> None:
    """``python -m stack.guardian``: hear to the end, then act."""
    orders = [json.loads(line) for line in sys.stdin]
    if ["leave"] in orders:
        return
    for action, *about in orders:
        with contextlib.suppress(StackError, OSError):  # the rest is to be ended all the same
            _act(action, *about)


def _act(action: str, subject: str, started: str = "") -> None:
    match action:
        case "end":
            process.kill(Process(int(subject), started))
        case "stop":
            servers.stop(Path(subject))
        case "purge":
            leftovers.purge_below(Path(subject))
        case "delete":
            shutil.rmtree(subject, ignore_errors=True)


if __name__ == "__main__":
    main()
