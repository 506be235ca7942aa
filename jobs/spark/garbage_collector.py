"""Memory of a Python process that makes rows by the ten thousand: the garbage collector, and what
the allocators keep.

Rows come and go without cycles, but they are so many that the collector runs all the time, over all
objects of the process: 3 of the 4.7 µs that a document for Redis took.
"""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from typing import Final

import pyarrow as pa

_NEW_OBJECTS: Final = 50_000
"""So many more than were let go of, and it looks for cycles among them."""
_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc; other C libraries keep less."""
_JEMALLOC: Final = "narenas:1,lg_tcache_max:13,dirty_decay_ms:5000,muzzy_decay_ms:0"
_ARENAS: Final = -8
_ARENA_COUNT: Final = 2
"""Of the C library: threads that allocate at once seldom wait for each other."""


@cache
def collect_rarely() -> None:
    """What is there by now stays, and is not looked at again; what is new, when it is much. Once a
    process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def keep_little() -> None:
    """Let the allocators below Python keep less of what was freed. To be called before delta-rs is
    loaded, whose own is jemalloc, and before there are threads; what the environment says wins.

    delta-rs reads files in up to 150 threads. By default jemalloc keeps freed blocks for each of
    them and in four arenas a core, and glibc has eight a core: memory of a driver that does nothing
    but small merges went up and down by 100 MB, with what its threads were given to do. Keeping
    still less costs: without caches of threads, and with a decay of one second, ten views took
    0.31 in place of 0.27 cores.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", _JEMALLOC)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENAS, _ARENA_COUNT)


def give_back_memory() -> None:
    """Look for cycles, and hand the pages that are free then, after a backlog for example, back to
    the system: Arrow's and the C library's. Takes milliseconds."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
