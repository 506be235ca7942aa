"""The newest records of a topic, in memory for all of its clients. Pure.

Records stand in the order in which they were read, which keeps that of each partition. A client
reads on from the offsets of its place: ``begin`` finds where, ``after`` gives what follows. What
the ring holds is bounded by bytes; a client that needs what it has dropped reads from Kafka.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cdc.lsn import Position

_OVERHEAD_BYTES: Final = 200
_COMPACTED: Final = 4_096
"""Dropped entries are let go of when there are so many, and more than are left."""


class Entry(NamedTuple):
    """A record with a value. ``ends_at`` counts the bytes that were ever added, up to its end."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    position: Position
    op: str
    ends_at: int = 0

    @property
    def size(self) -> int:
        return len(self.value) + len(self.key or b"") + _OVERHEAD_BYTES


class Ring:
    """``low`` and ``high`` are the offsets that it covers, by partition: from, and up to without.
    Entries are numbered from 0, for ever."""

    def __init__(self, begin: Mapping[int, int], most_bytes: int) -> None:
        self.low, self.high = dict(begin), dict(begin)
        self.bytes = 0
        """That were ever added."""
        self._most_bytes = most_bytes
        self._entries: list[Entry] = []
        self._first = 0
        """The number of the first in the list."""
        self._dropped = 0
        """How many in front of the list are no longer held."""
        self._held_bytes = 0
        self._offsets: dict[int, list[int]] = {partition: [] for partition in begin}
        self._numbers: dict[int, list[int]] = {partition: [] for partition in begin}

    @property
    def begin(self) -> int:
        """The number of the oldest entry that is held."""
        return self._first + self._dropped

    @property
    def end(self) -> int:
        """The number that the next entry will have."""
        return self._first + len(self._entries)

    def add(self, entries: Iterable[Entry], high: Mapping[int, int]) -> None:
        """Of each partition in order; ``high`` is where they end: tombstones have no entry."""
        for entry in entries:
            assert entry.offset >= self.high[entry.partition], "read in order, and once"
            self.bytes += entry.size
            self._held_bytes += entry.size
            self._offsets[entry.partition].append(entry.offset)
            self._numbers[entry.partition].append(self.end)
            self._entries.append(entry._replace(ends_at=self.bytes))
            self.high[entry.partition] = entry.offset + 1
        for partition, offset in high.items():
            assert offset >= self.high[partition]
            self.high[partition] = offset
        self._drop()

    def covers(self, offsets: Sequence[int]) -> bool:
        """Whether a client can read on here."""
        return all(self.low[p] <= at <= self.high[p] for p, at in enumerate(offsets))

    def dropped_none_of(self, offsets: Sequence[int]) -> bool:
        """Whether it holds, or will, all that such a client needs next."""
        return all(at >= self.low[partition] for partition, at in enumerate(offsets))

    def start(self, offsets: Sequence[int]) -> int:
        """The number from which a client reads on whose next offsets these are. Entries behind it
        may be of other partitions, and below its offsets: those it passes over."""
        assert self.covers(offsets)
        found = self.end
        for partition, at in enumerate(offsets):
            index = bisect_left(self._offsets[partition], at)
            if index < len(self._numbers[partition]):
                found = min(found, self._numbers[partition][index])
        return max(found, self.begin)

    def after(self, number: int, most_bytes: int) -> Sequence[Entry]:
        """What follows, one entry at least if there is any."""
        assert number >= self.begin, "a client that was left behind reads from Kafka"
        index, found, size = number - self._first, 0, 0
        while index + found < len(self._entries) and size < most_bytes:
            size += self._entries[index + found].size
            found += 1
        return self._entries[index : index + found]

    def waiting_bytes(self, number: int) -> int:
        """How much stands from ``number`` on."""
        if number >= self.end:
            return 0
        entry = self._entries[max(number, self.begin) - self._first]
        return self.bytes - entry.ends_at + entry.size

    def _drop(self) -> None:
        while self._held_bytes > self._most_bytes and self._dropped < len(self._entries) - 1:
            entry = self._entries[self._dropped]
            self._held_bytes -= entry.size
            self._dropped += 1
            self.low[entry.partition] = entry.offset + 1
        if self._dropped > max(_COMPACTED, len(self._entries) // 2):
            self._compact()

    def _compact(self) -> None:
        del self._entries[: self._dropped]
        self._first += self._dropped
        self._dropped = 0
        for partition, numbers in self._numbers.items():
            gone = bisect_left(numbers, self._first)
            del numbers[:gone]
            del self._offsets[partition][:gone]
