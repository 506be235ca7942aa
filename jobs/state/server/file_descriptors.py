"""Open files and sessions that no forked child may keep: it may outlive us, and with it a lock, a
pipe or a session would.

A program that is started gets none of Python's files, but a child that is only forked gets all.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Final, Protocol


class Open(Protocol):
    """A file, a pipe or a session."""

    def fileno(self) -> int: ...


_open: Final[weakref.WeakSet[Open]] = weakref.WeakSet()


def close_in_children(one: Open) -> None:
    """Close it in whatever is forked from now on; it stays open here."""
    _open.add(one)


def _close_all() -> None:
    """The number stays taken, so that who closes it later closes nothing else."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in list(_open):
        with suppress(Exception):  # closed before; a session says so in its own way
            os.dup2(nothing, one.fileno(), inheritable=False)
    os.close(nothing)
    _open.clear()


os.register_at_fork(after_in_child=_close_all)
