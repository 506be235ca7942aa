"""Where each partition ends: the last streamed event that Kafka holds of it.

On a restart capture compares what the server repeats with these ends
(``cdc.capture.duplicate_filter``). Streamed means ordinal 1 or more: snapshot rows (ordinal 0) say
nothing of the stream. They stand before it, or anywhere in it: `headwater table add` brings them
while capture runs, also between a delete and its tombstone. These two share a position, so an end
in a delete has one more question: does its tombstone stand behind it? A tombstone there can be of
no other.

A partition is read from its end in growing stretches until a streamed event is found, down to the
newest mark's floor: what stands below is covered by the mark's LSN. The mark's offsets say less:
they may count acknowledged records of transactions that its LSN does not cover.

Positions of two sources cannot be compared, and routes may give two the same topic: an event that
names another source is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from cdc.capture.duplicate_filter import Tail
from cdc.errors import LogError
from cdc.events.capture_dead_letters import meant_for, unfinished
from cdc.events.codes import DELETE
from cdc.events.payload import payload
from cdc.events.records import POSITION_HEADER
from cdc.kafka.broker import Offsets, Record, windows_back
from cdc.lsn import Position, parse_position


class Log(Protocol):
    """The part of ``cdc.kafka.broker.Broker`` that is needed."""

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets: ...
    def end_offsets(self, topics: Sequence[str]) -> Offsets: ...
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]: ...


Read = Callable[[bytes], Any]
"""What a value says, as JSON has it. Raises ``ValueError`` for one that is none."""


class Streamed(NamedTuple):
    """A streamed event: where it stands, and whether a tombstone belongs after it."""

    position: Position
    owes_tombstone: bool
    unfinished: bool = False


class _Scan(NamedTuple):
    """What a stretch showed: its last streamed event, and whether a tombstone stands behind that,
    or anywhere if there is none."""

    last: Streamed | None
    tombstone: bool


def read_tails(
    log: Log,
    topics: Sequence[str],
    floor: Offsets,
    read: Read = orjson.loads,
    source: str = "",
) -> dict[tuple[str, int], Tail]:
    """The tail of every partition of ``topics``, as far as it stands above ``floor``, the newest
    mark's floors. ``read`` tells what a value says; ``source`` is the name that events of the
    source have, empty: any.

    Raises ``LogError`` when a record was not written by Headwater, or is of another source, or
    ``floor`` is beyond a log's end.
    """
    starts, ends = log.beginning_offsets(topics), log.end_offsets(topics)
    tails = {}
    for topic in topics:
        for partition, end in ends[topic].items():
            kept = floor.get(topic, {}).get(partition, 0)
            if kept > end:
                raise LogError(
                    f"{topic}-{partition} ends at offset {end}, but capture had written up to "
                    f"{kept}: it was recreated, or its newest records were lost",
                    "restore it, or start over with a new source.name",
                )
            stretches = windows_back(max(starts[topic][partition], kept), end)
            tails[topic, partition] = _tail(log, topic, partition, stretches, read, source)
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
    log: Log,
    topic: str,
    partition: int,
    stretches: Iterable[tuple[int, int]],
    read: Read,
    source: str,
) -> Tail:
    made_it = False
    for start, stop in stretches:
        last, tombstone = scan(topic, log.read(topic, partition, start, stop), read, source)
        made_it = made_it or tombstone
        if last is not None:
            return Tail(last.position, last.owes_tombstone and not made_it)
    return Tail(None)


def scan(
    topic: str, records: Iterable[Record], read: Read = orjson.loads, source: str = ""
) -> _Scan:
    """The last streamed event among ``records`` of one partition, in a single pass."""
    last: Streamed | None = None
    tombstone = False
    for record in records:
        event = streamed(topic, record, read, source)
        if event is not None:
            last, tombstone = event, False
        elif record.value is None:
            tombstone = True
    return _Scan(last, tombstone)


def streamed(
    topic: str, record: Record, read: Read = orjson.loads, source: str = ""
) -> Streamed | None:
    """The event a record holds; None for a tombstone and for a snapshot row.

    What is no event of a table says its position in a header. Raises ``LogError`` for an event of
    another source than ``source``.
    """
    told = dict(record.headers).get(POSITION_HEADER)
    if told is not None:
        position = _parsed(topic, record, told)
        if not position.ordinal:
            return None
        # Nothing but its tombstone shares the position of a record with a key.
        owes = record.value is not None and record.key is not None
        return Streamed(position, owes, unfinished(record.headers))
    if record.value is None:
        return None
    try:
        event = payload(read(record.value))
        block = event["source"]
        position = Position(int(block["commit_lsn"]), int(block["ordinal"]))
        op, name = event["op"], block.get("name", source)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _foreign(topic, record) from None
    if source and name != source:
        raise _others(topic, record, name)
    if position.ordinal == 0:
        return None
    return Streamed(position, owes_tombstone=op == DELETE and record.key is not None)


def refuse_others(log: Log, topics: Sequence[str], source: str, read: Read = orjson.loads) -> None:
    """Raise ``LogError`` where the newest event of a partition is of another source than
    ``source``, or no event: a topic belongs to one source."""
    starts, ends = log.beginning_offsets(topics), log.end_offsets(topics)
    for topic in topics:
        for partition, end in ends[topic].items():
            for start, stop in windows_back(starts[topic][partition], end):
                held = [r for r in log.read(topic, partition, start, stop) if r.value is not None]
                if held:
                    streamed(topic, held[-1]._replace(headers=[]), read, source)
                    break


def _parsed(topic: str, record: Record, position: bytes) -> Position:
    try:
        return parse_position(position)
    except ValueError:
        raise _foreign(topic, record) from None


def _foreign(topic: str, record: Record) -> LogError:
    return LogError(
        f"{topic}-{record.partition}: the record at offset {record.offset} was not written by "
        "Headwater",
        "give the source a unique source.name, so that no other program writes to its topics",
    )


def _others(topic: str, record: Record, name: object) -> LogError:
    return LogError(
        f"{topic}-{record.partition}: the record at offset {record.offset} is of source {name}: a "
        "topic belongs to one source, as positions of two cannot be compared",
        "name another topic in source.routes of one of them",
    )
