"""How this process asks the system for memory."""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8
_KEPT_BYTES: Final = 8 << 20
"""More than any one block of 2,000 frames or rows."""


_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back_memory() -> None:
    """Hand pages that are free by now back to the system, also those between others that are not:
    what a stall or a backlog took would stay for good. Takes milliseconds."""
    if _TRIM is not None:
        _TRIM(0)


def keep_freed_memory() -> None:
    """Let the allocator keep what a batch gave back, for the next one.

    By default glibc returns every large block to the system and asks for it again: measured half
    a page fault for each captured change. And it gives each thread an arena of its own: what the
    client of Kafka frees in its threads, no batch can use (measured 6 MB). Other C libraries have
    no such settings, and need none. To be called before there are threads.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_ARENAS, 1)
