"""A progress mark as records of ``<source>.__progress``, and back. Pure.

A mark is one record, its key the source's name, unless it names so many partitions that no record
holds it. Then it is compressed and cut into parts, one behind the other; it counts once all of them
are there. Marks in parts take turns between two sets of keys: parts of one that a killed capture
did not finish must not make compaction remove those of the one before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from cdc.errors import LogError
from cdc.events.marks import Mark, decode_mark
from cdc.events.records import Record, Written

_PART: Final = "part"
"""``mark/i/n``: of which mark, and which of how many, from 0."""
_ROOM: Final = 300
"""For a part's key and header."""
_TURNS: Final = 2


class StoredMark(NamedTuple):
    """A mark that Kafka holds, when it was produced, and in how many parts; ``turn`` is which set
    of keys these have."""

    mark: Mark
    timestamp_ms: int
    parts: int = 0
    turn: int = 0

    @property
    def next_turn(self) -> int:
        """Of the next mark: another one than this mark's."""
        return (self.turn + 1) % _TURNS


def mark_records(mark: Mark, source: str, now_ms: int, limit: int, turn: int = 0) -> list[Record]:
    """The records of a mark, each of up to ``limit`` bytes."""
    value = mark.encode(now_ms)
    if len(value) + len(source.encode()) <= limit:
        return [{"key": source.encode(), "value": value, "partition": 0}]
    packed, step = zlib.compress(value, 1), max(1, limit - _ROOM)
    pieces = [packed[at : at + step] for at in range(0, len(packed), step)]
    name = f"{mark.confirmed}-{now_ms}"
    return [
        {
            "key": _key(source, turn, number),
            "value": piece,
            "partition": 0,
            "headers": [(_PART, f"{name}/{number}/{len(pieces)}".encode())],
        }
        for number, piece in enumerate(pieces)
    ]


def withdrawing_keys(source: str, stored: StoredMark) -> list[bytes]:
    """The keys whose tombstones take a mark away, and what there may be of the one before."""
    turns = range(_TURNS) if stored.parts else ()
    numbers = range(stored.parts)
    return [source.encode(), *(_key(source, turn, n) for turn in turns for n in numbers)]


def newest_of(records: Iterable[Written], topic: str) -> StoredMark | None:
    """The newest whole mark of ``records``, which are the newest first; None when there is none, or
    it was taken away. Raises ``LogError`` for what is no mark."""
    begun: dict[str, dict[int, bytes]] = {}
    for record in records:
        if record.value is None:
            return None
        told = dict(record.headers).get(_PART)
        if told is None:
            return StoredMark(decode_mark(record.value, topic), record.timestamp_ms)
        name, number, count, turn = _part(told, record.key or b"", topic)
        parts = begun.setdefault(name, {})
        parts[number] = record.value
        if len(parts) == count:
            value = _unpacked(b"".join(parts[i] for i in range(count)), topic)
            return StoredMark(decode_mark(value, topic), record.timestamp_ms, count, turn)
    return None


def _key(source: str, turn: int, number: int) -> bytes:
    return f"{source}#{turn}/{number}".encode()


def _part(told: bytes, key: bytes, topic: str) -> tuple[str, int, int, int]:
    try:
        name, number, count = told.decode().split("/")
        turn = key.decode().rpartition("#")[2].partition("/")[0]
        return name, int(number), int(count), int(turn)
    except ValueError as error:
        raise _foreign(topic, error) from None


def _unpacked(packed: bytes, topic: str) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise _foreign(topic, error) from None


def _foreign(topic: str, error: Exception) -> LogError:
    return LogError(
        f"topic {topic} holds a record that is not part of a progress record: {error!r}",
        "give this source a unique source.name: another program writes to the topic",
    )
