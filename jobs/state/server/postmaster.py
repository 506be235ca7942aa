"""The process of the embedded server: started, ended, and ended too when we are killed.

A shell stands between us and the server: its parent, so the pid that it signals is nobody else's.
It waits for the end of a pipe whose other end only we hold, so it learns of our end however that
comes, and then has the server shut down, fast and in order. A signal of the kernel at the death of
the parent would not do: it is sent when the *thread* ends that started the child, and Python would
have to run code between fork and exec.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cdc.errors import RetryableError, StateError
from jobs.state.server.binaries import Binaries
from jobs.state.server.data_directory import start_error
from jobs.state.server.file_descriptors import close_in_children
from jobs.state.server.location import Place
from jobs.state.server.os_user import Account, as_account, server_environ

_SHELL: Final = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
trap '' INT TERM HUP QUIT
(read -r _ <&3; kill -INT "$server") 2>/dev/null &
watch=$!
exec 3<&-
wait "$server"
status=$?
kill -KILL "$watch" 2>/dev/null
exit "$status"
"""
_POLL_S: Final = 0.01
_START_S: Final = 300.0
"""Recovery after a crash reads at most ``max_wal_size``; disks may be slow."""
_STOP_S: Final = 60.0
_ANSWER_S: Final = 1.0
_LOG_BYTES: Final = 1 << 20
_READY: Final = "ready"
_STATUS_LINE: Final = 7


class Running(NamedTuple):
    """What ``postmaster.pid`` says of a server."""

    pid: int
    ready: bool


class Postmaster:
    """One start of the server. One thread at a time calls it."""

    def __init__(self, place: Place, shell: subprocess.Popen[bytes]) -> None:
        self._place = place
        self._shell = shell

    def alive(self) -> bool:
        """Whether the server's process is there."""
        return self._shell.poll() is None and running(self._place) is not None

    def stop(self) -> None:
        """Shut down in order; by force after a minute: the next start then recovers."""
        pipe = self._shell.stdin
        assert pipe is not None
        with suppress(OSError):
            pipe.close()
        try:
            self._shell.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            end_left_over(self._place)
            self._shell.wait(_STOP_S)


def start(place: Place, binaries: Binaries, account: Account | None) -> Postmaster:
    """Start the server and wait until it answers.

    Raises ``RetryableError`` for a full disk, ``StateError`` with the end of its log otherwise.
    """
    size = _shorten(place.log)
    place.log.touch(mode=0o600)
    configuration = f"config_file={place.directory / 'postgresql.conf'}"
    command = [str(binaries.postgres), "-D", str(place.data), "-c", configuration]
    with place.log.open("ab") as log:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, "headwater-state", *command],
            stdin=subprocess.PIPE,
            bufsize=0,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=server_environ(),
            start_new_session=True,  # Ctrl-C is for us, who stop it in order
            **as_account(account),
        )
    assert shell.stdin is not None
    close_in_children(shell.stdin)
    postmaster = Postmaster(place, shell)
    try:
        _wait_ready(place, shell, size)
    except BaseException:
        postmaster.stop()
        raise
    return postmaster


def running(place: Place) -> Running | None:
    """The server of a data directory whose process is there, whoever started it."""
    noted = _noted(place)
    return noted if noted and _works_in(noted.pid, place.data) else None


def answers_elsewhere(place: Place) -> bool:
    """Whether a server whose process cannot be seen here takes sessions: that of another container,
    which shares the folder."""
    noted = _noted(place)
    if noted is None or not noted.ready:
        return False
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_ANSWER_S)
        try:
            asked.connect(str(place.socket_file))
        except OSError:  # of a server that was killed the file is left, and nobody listens
            return False
    return True


def _noted(place: Place) -> Running | None:
    """What ``postmaster.pid`` says, which outlives a server that is killed."""
    try:
        lines = (place.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    status = lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""
    return Running(pid, status == _READY)


def end_left_over(place: Place) -> None:
    """Stop a server that outlived who started it, in order if it can, and wait for its sessions,
    which may outlive it and still use its memory.

    Raises ``StateError`` if they do not end.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        found = running(place)
        for pid in [found.pid] if found else _processes(place.data):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + _STOP_S / 2
        while _processes(place.data):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        else:
            # Its pid may be another process's now, for which PostgreSQL would not start.
            if Path("/proc/self").exists():
                (place.data / "postmaster.pid").unlink(missing_ok=True)
            return
    raise StateError(
        f"processes of the state database are still running: {_processes(place.data)}",
        "check the machine (they may be waiting for the disk), then start `headwater apply` again",
    )


def _processes(data: Path) -> list[int]:
    """Those whose working directory it is: the server and its sessions (Linux; else it alone)."""
    if not Path("/proc/self").exists():
        with suppress(OSError, ValueError, IndexError):
            pid = int((data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
            return [pid] if _works_in(pid, data) else []
        return []
    return [
        int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _works_in(entry.name, data)
    ]


def _works_in(pid: int | str, data: Path) -> bool:
    """A pid alone says nothing after a crash: the system may have given it to another process."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), data.stat())
    except FileNotFoundError:
        return not Path("/proc/self").exists() and _is_postgres(pid)
    except OSError:
        return False


def _is_postgres(pid: int | str) -> bool:
    """Systems without /proc (macOS)."""
    asked = ["ps", "-o", "comm=", "-p", str(pid)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return told.strip().endswith("postgres")


def _wait_ready(place: Place, shell: subprocess.Popen[bytes], log_from: int) -> None:
    deadline = time.monotonic() + _START_S
    while (found := running(place)) is None or not found.ready:
        if shell.poll() is not None:
            raise start_error(place.directory, _since(place.log, log_from))
        if time.monotonic() > deadline:
            raise RetryableError(
                f"state database in {place.directory}: not ready after {_START_S:.0f} s",
                f"see {place.log}: it may be recovering from a crash",
            )
        time.sleep(_POLL_S)


def _since(log: Path, log_from: int) -> str:
    with log.open("rb") as file:
        file.seek(log_from)
        return file.read().decode("utf-8", "replace")


def _shorten(log: Path) -> int:
    """Keep the log bounded over starts; returns its size."""
    if not log.exists():
        return 0
    size = log.stat().st_size
    if size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.old"))
        return 0
    return size
