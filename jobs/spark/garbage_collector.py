"""Memory of a Python process that makes rows by the ten thousand: the garbage collector, and what
the allocators keep.

Rows come and go without cycles, but they are so many that the collector runs all the time, over all
objects of the process: 3 of the 4.7 µs that a document for Redis took.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Final

import pyarrow as pa

_NEW_OBJECTS: Final = 50_000
"""So many more than were let go of, and it looks for cycles among them."""
_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc; other C libraries keep less."""


@cache
def collect_rarely() -> None:
    """What is there by now stays, and is not looked at again; what is new, when it is much. Once a
    process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def give_back_memory() -> None:
    """Look for cycles, and hand the pages that are free then, after a backlog for example, back to
    the system: Arrow's and the C library's. Takes milliseconds."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
