"""How this process asks the system for memory."""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES: Final = 8 << 20
"""More than any one block of 2,000 frames or rows."""


def keep_freed_memory() -> None:
    """Let the allocator keep what a batch gave back, for the next one.

    By default glibc returns every large block to the system and asks for it again: measured half
    a page fault for each captured change. Other C libraries have no such setting, and need none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
