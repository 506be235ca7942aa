"""Processes that outlive the command that started them, and are ours only as long as proven.

A pid alone says nothing: the system gives it to another process later. So a process is known by
its pid and the moment it started (``Process``); nothing is signalled unless both still fit.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.errors import StackError

_POLL_S = 0.02
# Children of this very process have to be reaped, or they stay as zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """A process and when it started (text of the system, good for comparing only)."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class User:
    """Whom a server runs as when that is not the user who starts it."""

    uid: int
    gid: int


def unprivileged_user() -> User | None:
    """For a server that refuses root: ``nobody`` if we are root, else ``None`` (ourselves)."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return User(entry.pw_uid, entry.pw_gid)


def started_at(pid: int) -> str | None:
    """When the process with this pid started; ``None`` if there is none, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    # A killed JVM is a zombie at once, yet holds its ports until its last thread has ended.
    zombie = fields[0] in "ZX" and threads <= 1
    return None if zombie else fields[19]


def _started_by_ps(pid: int) -> str | None:
    """Systems without /proc (macOS)."""
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def alive(process: Process | None) -> bool:
    """Whether the very same process still runs."""
    if process is None:
        return False
    if process.pid in _children and _children[process.pid].poll() is not None:
        del _children[process.pid]
    return started_at(process.pid) == process.started


def spawn(
    command: Sequence[str | Path],
    log: Path,
    directory: Path,
    environ: Mapping[str, str],
    user: User | None = None,
) -> Process:
    """Start a server in a session of its own, so that Ctrl-C on our terminal does not reach it.

    Its output is appended to ``log``.
    """
    arguments = [str(part) for part in command]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=dict(environ),
                start_new_session=True,
                **as_user(user),
            )
    except OSError as error:
        raise StackError(f"{arguments[0]} cannot be started: {error.strerror}") from None
    _children[child.pid] = child
    return Process(child.pid, started_at(child.pid) or "")


def as_user(user: User | None) -> dict[str, Any]:
    """Arguments of ``subprocess`` that run a command as ``user`` and in none of our groups."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": []}


def send(process: Process | None, number: signal.Signals) -> None:
    """Signal the process if it is still the one we started."""
    if process is not None and alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return  # it went between the look and the signal: what was wanted


def wait_gone(process: Process | None, timeout_s: float) -> bool:
    """Wait until the process has ended; ``False`` if it has not by then."""
    deadline = time.monotonic() + timeout_s
    while alive(process):
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(_POLL_S)
    return True


def descendants(pid: int) -> list[Process]:
    """The processes below ``pid``, so that a kill leaves none behind (Linux; else empty)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found: list[Process] = []
    queue = [pid]
    while queue:
        for child in parents.get(queue.pop(), []):
            started = started_at(child)
            if started is not None:
                found.append(Process(child, started))
                queue.append(child)
    return found


def kill(process: Process | None, timeout_s: float = 30) -> None:
    """SIGKILL, to the process and all below it, and wait until they are gone."""
    if process is None or not alive(process):
        return
    doomed = [process, *descendants(process.pid)]
    for one in doomed:
        send(one, signal.SIGKILL)
    for one in doomed:
        if not wait_gone(one, timeout_s):
            raise StackError(f"process {one.pid} is still running after SIGKILL")
