"""Whose turn it is with a view: locks that end with the process which holds them.

``stream``  held by whoever applies the stream to the live generation, and for a switch
``build``   held by whoever builds, switches, repairs or drops generations
``asked``   held while the live generation is wanted of whoever applies the stream to it
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cdc.errors import ViewError

Turn = Literal["stream", "build", "asked"]
BUSY_S = 5.0
"""How long another command of the same view is waited for."""
_LET_GO_S = 100.0
"""What a batch and Spark's end may take."""
_POLL_S = 0.05


@contextmanager
def turn(
    directory: Path, which: Turn, wait_s: float, stopped: Callable[[], bool] = lambda: False
) -> Iterator[bool]:
    """Hold a lock of the view; false if ``stopped`` came first.

    Raises ``ViewError`` when another process holds it for ``wait_s``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_s
    with (directory / f"{which}.lock").open("a") as file:
        while not _taken(file.fileno()):
            if stopped():
                yield False
                return
            if time.monotonic() > deadline:
                raise ViewError(
                    f"view {directory.name}: another headwater "
                    + ("applies it" if which == "stream" else "builds, switches or repairs it"),
                    "wait until it is done, or stop it",
                )
            time.sleep(_POLL_S)
        yield True  # closing the file gives it back


@contextmanager
def taken_over(directory: Path, wait_s: float) -> Iterator[None]:
    """Hold the stream of the live generation. Whoever applies it lets go, and goes on afterwards,
    also when we are killed.

    Raises ``ViewError`` when it does not within ``wait_s``, or what a batch may take.
    """
    with turn(directory, "asked", BUSY_S), turn(directory, "stream", max(wait_s, _LET_GO_S)):
        yield


def is_free(directory: Path, which: Turn) -> bool:
    """Whether nobody holds a lock of the view now. Two who ask at once do not see each other."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{which}.lock").open("a") as file:
        return _taken(file.fileno(), fcntl.LOCK_SH)


def _taken(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
