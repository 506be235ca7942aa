"""Whose turn it is with a view: locks that end with the process which holds them.

``stream``  held by whoever applies the stream to the live generation, and for a switch
``build``   held by whoever builds, switches, repairs or drops generations
``asked``   held while the live generation is wanted of whoever applies the stream to it
``waits``   held by whoever is to apply the stream as soon as that is given back, or built

The file of a lock says who took it last, for whoever waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from cdc.errors import ViewError
from jobs.state.server.private_folder import private_folder

Turn = Literal["stream", "build", "asked", "waits"]
BUSY_S = 5.0
"""How long another command of the same view is waited for."""
_LET_GO_S = 100.0
"""What a batch and Spark's end may take."""
_POLL_S = 0.05
_NOTICE_S = 0.5
"""Whoever only looks whether a lock is free holds it for less."""


class Holder(NamedTuple):
    """Who has a lock; ``since`` is UTC."""

    pid: int
    since: str

    def __str__(self) -> str:
        return f"pid {self.pid}, since {self.since}"


@contextmanager
def turn(
    directory: Path,
    which: Turn,
    wait_s: float,
    stopped: Callable[[], bool] = lambda: False,
    on_wait: Callable[[Holder | None], None] = lambda _: None,
) -> Iterator[bool]:
    """Hold a lock of the view; false if ``stopped`` came first. ``on_wait`` is called once, with
    whom it waits for, if it has to.

    Raises ``ViewError`` when another process holds it for ``wait_s``.
    """
    private_folder(directory)
    began, told = time.monotonic(), False
    with (directory / f"{which}.lock").open("a+") as file:
        while not taken(file.fileno()):
            if stopped():
                yield False
                return
            waited_s = time.monotonic() - began
            if waited_s > wait_s:
                raise _busy(directory.name, which, _holder(file.fileno()))
            if waited_s > _NOTICE_S and not told:
                on_wait(_holder(file.fileno()))
                told = True
            time.sleep(_POLL_S)
        with suppress(OSError):  # a disk without room: the lock is held all the same
            _sign(file.fileno())
        yield True  # closing the file gives it back


def _busy(view: str, which: Turn, holder: Holder | None) -> ViewError:
    who = f"another headwater ({holder})" if holder else "another headwater"
    does = "applies it" if which == "stream" else "builds, switches or repairs it"
    return ViewError(f"view {view}: {who} {does}", "wait until it has finished, or stop it")


@contextmanager
def taken_over(directory: Path, wait_s: float) -> Iterator[None]:
    """Hold the stream of the live generation. Whoever applies it lets go, and goes on afterwards,
    also when we are killed.

    Raises ``ViewError`` when it does not within ``wait_s``, or what a batch may take.
    """
    with turn(directory, "asked", BUSY_S), turn(directory, "stream", max(wait_s, _LET_GO_S)):
        yield


def is_kept(directory: Path) -> bool:
    """Whether somebody applies the stream to the view, or is to as soon as it may."""
    return not (is_free(directory, "stream") and is_free(directory, "waits"))


def is_free(directory: Path, which: Turn) -> bool:
    """Whether nobody holds a lock of the view now. Two who ask at once do not see each other."""
    try:
        with (directory / f"{which}.lock").open() as file:  # who asks may have no right to write
            return taken(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return True


def taken(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file, unless somebody else has: whether it is ours now."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}".encode())


def _holder(descriptor: int) -> Holder | None:
    """Of a lock that is held; None if that is not known."""
    pid, _, since = os.pread(descriptor, 100, 0).decode(errors="replace").partition(" ")
    return Holder(int(pid), since) if pid.isdecimal() else None
