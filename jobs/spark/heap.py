"""How much memory Spark's driver is given, and how many records of a batch that is for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

_HEAP_BYTES: Final = (2 << 30, 5 << 30)
_SHARE: Final = 5
"""Of the memory there is: PostgreSQL, Kafka or a store may be on the same machine."""
_RECORD_BYTES: Final = 4_096
"""Of the driver's heap for each record of a batch: its event, parsed, folded, made a row, cached.
Batches of 340,000 records fit into 2 GB for three views at a time: an event of 1 kB."""
_RECORDS: Final = (10_000, 1_000_000)
_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""What a container may use: of this version of control groups, and the one before."""


def memory(limits: Sequence[Path] = _LIMITS) -> int:
    """Bytes this process may use: what the machine has, or what its container is allowed."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        try:
            found.append(int(limit.read_text()))
        except (OSError, ValueError):  # not this version, or "max"
            continue
    return min(found)


def driver_heap(memory_bytes: int) -> int:
    """The largest heap of the driver, in bytes, where nothing else is asked for."""
    least, most = _HEAP_BYTES
    return max(least, min(most, memory_bytes // _SHARE))


def records_at_most(spark: SparkSession, views: int) -> int:
    """How many records a batch may have, for so many views that share the driver's memory."""
    runtime: Any = spark.sparkContext._jvm
    heap = int(runtime.java.lang.Runtime.getRuntime().maxMemory())
    return most_records(heap, views)


def most_records(heap_bytes: int, views: int) -> int:
    """As ``records_at_most``, of a heap."""
    least, most = _RECORDS
    return max(least, min(most, heap_bytes // (_RECORD_BYTES * max(views, 1))))
