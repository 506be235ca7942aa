"""What a run left in Kafka, without what differs from run to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from cdc.events.capture_dead_letters import whole
from cdc.events.records import POSITION_HEADER
from cdc.kafka.broker import Record
from cdc.topics import dead_letters_topic, partition_for, progress_topic, schemas_topic
from tests.simulation.kafka import ADDED, SOURCE, Log

DIFFERS: Final = "differs from its record"
Partition = tuple[str, int]
_WITHOUT_PLACE: Final = (progress_topic(SOURCE), schemas_topic(SOURCE))
"""Compacted topics, whose records may stand again and again."""
_OF_THE_RUN: Final = re.compile(rb'"sequence":"\[.*?\]",|"ts_[mun]s":\d+')
"""The clock, and the end of the transaction before, which a session does not know at first."""


def contents(log: Log) -> dict[Partition, list[object]]:
    """Each partition's records, as they must be the same however they came there; rows of
    `headwater table add`, which come when they come, aside."""
    return {
        (topic, partition): _letters(held) if topic == dead_letters_topic(SOURCE) else _plain(held)
        for (topic, partition), held in _captured(log)
        if held and topic not in _WITHOUT_PLACE
    }


def events(log: Log) -> dict[Partition, list[object]]:
    """Each partition's records and the dead letters meant for it, in no order of their own."""
    letters = dead_letters_topic(SOURCE)
    found: dict[Partition, list[object]] = {
        (topic, partition): [_told(r.key, r.value, r.headers) for r in held]
        for (topic, partition), held in _captured(log)
        if held and topic not in (*_WITHOUT_PLACE, letters)
    }
    for letter in whole(log.records.get((letters, 0), [])):
        if not letter.missing:
            count = len(log.partitions_of(letter.topic))
            place = letter.topic, partition_for(letter.key, count)
            told = _told(letter.key, letter.value, letter.headers)
            found.setdefault(place, []).append(told)
    return {at: sorted(held, key=repr) for at, held in found.items()}


def difference(
    expected: Log, found: Log, of: Callable[[Log], dict[Partition, list[object]]] = contents
) -> str:
    """Where two runs first differ, in words; empty when they do not."""
    wanted, got = of(expected), of(found)
    for at in sorted(wanted.keys() | got.keys()):
        want, have = wanted.get(at, []), got.get(at, [])
        if want != have:
            pairs = enumerate(zip(want, have, strict=False))
            first = next((i for i, (a, b) in pairs if a != b), min(len(want), len(have)))
            return (
                f"{at[0]}[{at[1]}] {DIFFERS} {first} on, {len(want)} and "
                f"{len(have)} records:\n  expected {want[first : first + 2]}\n"
                f"  found    {have[first : first + 2]}"
            )
    return ""


def _captured(log: Log) -> Iterator[tuple[Partition, list[Record]]]:
    for at, held in log.records.items():
        yield at, [record for record in held if record.key != ADDED]


def _plain(held: Sequence[Record]) -> list[object]:
    return [(record.key, _lasting(record.value), tuple(record.headers)) for record in held]


def _told(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> object:
    """A tombstone says its position or not, as its delete was too large or not."""
    return key, _lasting(value), tuple(h for h in headers if h[0] != POSITION_HEADER)


def _letters(held: Sequence[Record]) -> list[object]:
    """Whole again: where the pieces are cut, and how often one began, depends on the run."""
    return [
        (letter.topic, letter.key, _lasting(letter.value), letter.position, letter.missing)
        for letter in whole(held)
    ]


def _lasting(value: bytes | None) -> bytes | None:
    return None if value is None else _OF_THE_RUN.sub(b"", value)
