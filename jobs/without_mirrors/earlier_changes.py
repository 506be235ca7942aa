"""What a topic has of the stream before a batch, for batches with late rows of snapshots.

While a table joins the stream there may be one after the other, for hours. So what one has read is
kept for the next, on the disks of Spark's executors, and a record is read again only where ranges
are put together, each at least twice as long as the next: as often as the logarithm of the number
of batches. Rows of snapshots, most of such a topic, are left out: a later row of its key, which is
asked for, is newer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc.events.codes import SNAPSHOT

RESTS_S: Final = 600.0
"""What is kept is released when no batch has asked for so long."""

Places = Mapping[int, int]
"""Offsets of one topic, by partition."""


class _Range(NamedTuple):
    begin: Places
    end: Places
    changes: DataFrame

    def __len__(self) -> int:
        return _records(self.begin, self.end)


class EarlierChanges:
    """``read`` gives the records of the topic between two offsets of each partition, from the
    first one where it has none. ``clock`` is in seconds, and never goes back."""

    def __init__(
        self,
        read: Callable[[Places, Places], DataFrame],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self._held: list[_Range] = []
        self._asked_s = 0.0

    def before(self, at: Places) -> DataFrame:
        """Changes below these offsets, as records of the Kafka source."""
        self._asked_s = self._clock()
        end = self._held[-1].end if self._held else {}
        if any(at.get(partition, 0) < offset for partition, offset in end.items()):
            self.release()
        if not self._held or at != self._held[-1].end:
            self._hold(at)
        return reduce(DataFrame.unionByName, (one.changes for one in self._held))

    def rest(self) -> None:
        """After each batch: release what was not asked for lately."""
        if self._held and self._clock() - self._asked_s >= RESTS_S:
            self.release()

    def release(self) -> None:
        """Also after Spark's end, which released it."""
        for one in self._held:
            with suppress(Exception):
                one.changes.unpersist()
        self._held.clear()

    def _hold(self, at: Places) -> None:
        begin: Places = self._held[-1].end if self._held else {}
        while self._held and len(self._held[-1]) <= 2 * _records(begin, at):
            last = self._held.pop()
            last.changes.unpersist()
            begin = last.begin
        changes = self._read(begin, at).where(_is_change()).persist(StorageLevel.DISK_ONLY)
        self._held.append(_Range(begin, dict(at), changes))


def _records(begin: Places, end: Places) -> int:
    return sum(offset - begin.get(partition, 0) for partition, offset in end.items())


def _is_change() -> Column:
    """Only what may be a snapshot's is parsed: in a text of an event the quotes would be escaped,
    but a table may have a column ``op``."""
    value = F.col("value").cast("string")
    is_read = value.contains(f'"op":"{SNAPSHOT}"')
    read = is_read & (F.get_json_object(value, "$.op") == SNAPSHOT)
    return value.isNotNull() & ~F.coalesce(read, F.lit(False))
