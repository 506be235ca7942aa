"""Bounded reads: stretches of partitions from one offset up to another, without it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.structs import TopicPartition

from cdc.errors import RetryableError
from cdc.kafka.broker.connection import Connection

Place = tuple[str, int]
"""A topic and one of its partitions."""
Stretch = tuple[int, int]
"""The first offset, and the one after the last."""

STALL_TIMEOUT_S = 20.0
"""A read that gets no further for so long is given up."""
_POLL_MS = 500
_AT_ONCE: Final = 5_000
_FIRST_AT_ONCE: Final = 20


class Record(NamedTuple):
    """One record; ``value`` None is a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def read(connection: Connection, place: Place, stretch: Stretch) -> Iterator[Record]:
    """The records of one stretch, in order."""
    reading = _Reading(connection, f"reading {place[0]}-{place[1]}", {place: stretch}, _AT_ONCE)
    return (record for _, record in reading.records())


def first_values(
    connection: Connection, wanted: Mapping[Place, Stretch]
) -> dict[Place, list[Record]]:
    """Of each stretch that holds a record the first one, and with tombstones in front all up to one
    that has a value. All are read at once."""
    found: defaultdict[Place, list[Record]] = defaultdict(list)
    doing = f"reading the first records of {len(wanted)} partitions"
    reading = _Reading(connection, doing, wanted, _FIRST_AT_ONCE)
    for place, record in reading.records():
        found[place].append(record)
        if record.value is not None:
            reading.end(place)
    return dict(found)


class _Reading:
    """One client reads several stretches, each until its end or until ``end`` is called for it."""

    def __init__(
        self, connection: Connection, doing: str, wanted: Mapping[Place, Stretch], at_once: int
    ) -> None:
        self._connection, self._doing, self._at_once = connection, doing, at_once
        self._at = {TopicPartition(*place): at for place, (at, end) in wanted.items() if at < end}
        self._end = {tp: wanted[tp][1] for tp in self._at}

    def end(self, place: Place) -> None:
        """No more of this one."""
        del self._end[TopicPartition(*place)]

    def records(self) -> Iterator[tuple[Place, Record]]:
        """In order of offset within a partition; offsets without a record are passed over."""
        if not self._end:
            return
        with self._connection.reader(self._doing) as reader:
            with self._connection.translated(self._doing):
                reader.assign(list(self._end))
                for tp, at in self._at.items():
                    reader.seek(tp, at)
            deadline = time.monotonic() + STALL_TIMEOUT_S
            while self._end:
                try:
                    polled, reached = self._polled(reader)
                except RetryableError:
                    if time.monotonic() > deadline:
                        raise
                    continue
                for tp, r in polled:
                    if self._at[tp] <= r.offset < self._end.get(tp, 0):
                        headers = r.headers
                        one = Record(tp.partition, r.offset, r.timestamp, r.key, r.value, headers)
                        yield (tp.topic, tp.partition), one
                if self._moved(reader, reached):
                    deadline = time.monotonic() + STALL_TIMEOUT_S
                elif time.monotonic() > deadline:
                    raise self._stalled()

    def _polled(self, reader: Any) -> tuple[list[tuple[TopicPartition, Any]], Mapping[Any, int]]:
        """What there is, and how far the client is with what it gave."""
        with self._connection.translated(self._doing):
            found = reader.poll(_POLL_MS, max_records=self._at_once)
            # Asked only where it tells of offsets without a record: it may fail, and the reader
            # goes on behind what it gave.
            reached = {tp: rows[-1].offset + 1 for tp, rows in found.items()} or {
                tp: reader.position(tp, timeout_ms=_POLL_MS) or 0 for tp in self._end
            }
        return [(tp, row) for tp, rows in found.items() for row in rows], reached

    def _moved(self, reader: Any, reached: Mapping[Any, int]) -> bool:
        """Whether any partition has come further; the reader goes on without those that are done.
        To pause them would not do: what the client has of a paused one it may never give again."""
        moved = {tp: at for tp, at in reached.items() if at > self._at[tp]}
        self._at |= moved
        self._end = {tp: end for tp, end in self._end.items() if self._at[tp] < end}
        if self._end and not moved.keys() <= self._end.keys():
            reader.assign(list(self._end))
        return bool(moved)

    def _stalled(self) -> RetryableError:
        tp, end = next(iter(self._end.items()))
        return RetryableError(
            f"Kafka at {self._connection.address}: reading {tp.topic}-{tp.partition}: nothing at "
            f"offset {self._at[tp]} of {end} for {STALL_TIMEOUT_S:.0f} s",
            "check that the partition has a leader and was not recreated",
        )
