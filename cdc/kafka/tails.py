"""Where each partition ends: the last streamed event that Kafka holds of it.

On a restart capture compares what the server repeats with these ends (``cdc.capture.replay``).
Streamed means ordinal 1 or more: snapshot rows (ordinal 0) stand before the stream and say nothing
of it. A delete and its tombstone share a position, so an end in a delete has one more question: is
the record after it the tombstone?

A partition is read from its end in growing stretches until a streamed event is found. A mark's
offsets end no search by themselves: they may count acknowledged records of a transaction that the
mark's LSN does not cover. But what stood there at a mark was written in order, snapshot before
stream; so below these offsets a snapshot row says that nothing was streamed. Only a dead letter
of a snapshot does not: it may stand behind those of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import orjson

from cdc.capture.replay import Tail
from cdc.errors import LogError
from cdc.events.dead_letters import meant_for, of_snapshot, unfinished
from cdc.events.records import POSITION_HEADER
from cdc.kafka.broker import Offsets, Record, windows_back
from cdc.lsn import Position, parse_position


class Log(Protocol):
    """The part of ``cdc.kafka.broker.Broker`` that is needed."""

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets: ...
    def end_offsets(self, topics: Sequence[str]) -> Offsets: ...
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]: ...


class Streamed(NamedTuple):
    """A streamed event: where it stands, and whether a tombstone belongs after it."""

    position: Position
    owes_tombstone: bool
    unfinished: bool = False


class _Scan(NamedTuple):
    """What a stretch showed: its last streamed event and the record right after that, its first
    record, which is the one after whatever stands before the stretch, and whether it holds
    snapshot rows."""

    last: Streamed | None
    after: Record | None
    first: Record | None
    rows: bool


def read_tails(log: Log, topics: Sequence[str], floor: Offsets) -> dict[tuple[str, int], Tail]:
    """The tail of every partition of ``topics``; ``floor`` holds the newest mark's offsets.

    Raises ``LogError`` when a record was not written by Headwater, or ``floor`` is beyond a log's
    end.
    """
    starts, ends = log.beginning_offsets(topics), log.end_offsets(topics)
    tails = {}
    for topic in topics:
        for partition, end in ends[topic].items():
            kept = floor.get(topic, {}).get(partition, 0)
            if kept > end:
                raise LogError(
                    f"{topic}-{partition} ends at offset {end}, but capture's progress says that "
                    f"it held {kept}: it was recreated, or its newest records were lost",
                    "restore it, or start the source over with a new source.name",
                )
            stretches = windows_back(starts[topic][partition], end)
            tails[topic, partition] = _tail(log, topic, partition, stretches, kept)
    return tails


def read_letters(log: Log, topic: str, lsn: int) -> frozenset[tuple[str, Position]]:
    """The whole dead letters of the stream that were committed above ``lsn``: which topic each was
    meant for, and its position.

    They are in order, so what is read ends at one that was not.
    """
    (start,) = log.beginning_offsets([topic])[topic].values()
    (end,) = log.end_offsets([topic])[topic].values()
    found: set[tuple[str, Position]] = set()
    below = False
    for first, stop in windows_back(start, end):
        for record in log.read(topic, 0, first, stop):
            event = streamed(topic, record)
            if event is None or event.unfinished:
                continue
            below = below or event.position.commit_lsn <= lsn
            found.add((meant_for(record.headers), event.position))
        if below:
            break
    return frozenset(found)


def _tail(
    log: Log, topic: str, partition: int, stretches: Iterable[tuple[int, int]], floor: int
) -> Tail:
    following: Record | None = None
    for start, stop in stretches:
        last, after, first, rows = scan(topic, log.read(topic, partition, start, stop))
        if last is not None:
            after = after or following
            made_it = after is not None and after.value is None
            return Tail(last.position, last.owes_tombstone and not made_it, last.unfinished)
        if rows and start < floor:
            break
        following = first or following
    return Tail(None)


def scan(topic: str, records: Iterable[Record]) -> _Scan:
    """The last streamed event among ``records`` of one partition, in a single pass."""
    last: Streamed | None = None
    after: Record | None = None
    first: Record | None = None
    rows = False
    for record in records:
        first = first or record
        event = streamed(topic, record)
        if event is not None:
            last, after = event, None
            continue
        rows = rows or _is_row(record)
        if last is not None and after is None:
            after = record
    return _Scan(last, after, first, rows)


def streamed(topic: str, record: Record) -> Streamed | None:
    """The event a record holds; None for a tombstone and for a snapshot row.

    What is no event of a table says its position in a header.
    """
    told = dict(record.headers).get(POSITION_HEADER)
    if told is not None:
        position = _parsed(topic, record, told)
        if of_snapshot(record.headers, position):
            return None
        return Streamed(position, False, unfinished(record.headers))
    if record.value is None:
        return None
    try:
        event = orjson.loads(record.value)
        source = event["source"]
        position = Position(int(source["commit_lsn"]), int(source["ordinal"]))
        op = event["op"]
    except (ValueError, KeyError, TypeError):
        raise _foreign(topic, record) from None
    if position.ordinal == 0:
        return None
    return Streamed(position, owes_tombstone=op == "d" and record.key is not None)


def _is_row(record: Record) -> bool:
    """Whether what is no event of the stream is a snapshot's row in its table's topic."""
    return record.value is not None and all(name != POSITION_HEADER for name, _ in record.headers)


def _parsed(topic: str, record: Record, position: bytes) -> Position:
    try:
        return parse_position(position)
    except ValueError:
        raise _foreign(topic, record) from None


def _foreign(topic: str, record: Record) -> LogError:
    return LogError(
        f"{topic}-{record.partition}: the record at offset {record.offset} was not written by "
        "Headwater",
        "give the source a source.name of its own, so that nobody else writes its topics",
    )
