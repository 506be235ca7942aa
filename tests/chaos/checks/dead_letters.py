"""Dead letters, put back to where they would stand, so that every check sees whole topics. Pure.

Whether a record is too large is capture's to say; that it then stands once, and only among the dead
letters, is what ``dead_letters`` and the order of the topics made whole tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from cdc.events.capture_dead_letters import PART_HEADER, DeadLetter, whole
from cdc.topics import dead_letters_topic, partition_for
from tests.chaos.checks.log import PUT_BACK, Letter, Log, Partition, Record, Told, record_of

R = TypeVar("R", Record, Told)


def with_letters(log: Log, source: str) -> Log:
    """The log as if no record had been too large; ``letters`` has those that were."""
    pieces = log.told.get((dead_letters_topic(source), 0), [])
    letters = list(whole(pieces))
    counts: dict[str, int] = defaultdict(int)
    for topic, _ in (*log.events, *log.told):
        counts[topic] += 1
    rows: dict[Partition, list[Record]] = defaultdict(list)
    others: dict[Partition, list[Told]] = defaultdict(list)
    for letter in letters:
        if letter.missing:
            continue
        place = letter.topic, partition_for(letter.key, max(1, counts[letter.topic]))
        if place in log.events:
            headers = {name: (text or b"").decode() for name, text in letter.headers}
            record = record_of(PUT_BACK, letter.key, letter.value, headers)
            rows[place].append(record)
        else:
            headers_of = list(letter.headers)
            others[place].append(Told(PUT_BACK, letter.key, letter.value, headers_of))
    return replace(
        log,
        events={place: _put_back(log.events[place], rows[place]) for place in log.events},
        told={
            place: _put_back(_without_pieces(log.told.get(place, [])), others[place])
            for place in {**log.told, **others}
        },
        letters=[Letter(one.topic, one.position, _size(one), one.missing) for one in letters],
    )


def _without_pieces(records: list[Told]) -> list[Told]:
    """Their values are many, and known by now."""
    return [one._replace(value=None) if one.header(PART_HEADER) else one for one in records]


def _put_back(records: list[R], letters: Sequence[R]) -> list[R]:
    """Each before the first record of a later position. A tombstone has none: it stays behind its
    delete, also where that was too large."""
    if not letters:
        return records
    found: list[R] = []
    waiting = list(reversed(letters))
    for record in records:
        if record.streamed:
            while waiting and waiting[-1].position < record.position:
                found.append(waiting.pop())
        elif isinstance(record, Record) and record.value is None:
            owed = [i for i, one in enumerate(waiting) if _is_delete(one, record)]
            if owed and not (found and _is_delete(found[-1], record)):
                while len(waiting) > owed[-1]:
                    found.append(waiting.pop())
        found.append(record)
    return found + list(reversed(waiting))


def _is_delete(record: Record | Told, tombstone: Record) -> bool:
    return isinstance(record, Record) and record.op == "d" and record.key == tombstone.key


def dead_letters(log: Log, limit: int | None) -> Iterator[str]:
    """Each is whole, and stands once; they are too large, and what stands in topics is not."""
    last: Letter | None = None
    for letter in log.letters:
        name = f"dead letter {letter.position.hex()} of {letter.topic}"
        if letter.missing:
            yield f"{name}: {letter.missing} pieces are missing"
            continue
        if last is not None and letter.position <= last.position:
            yield f"{name}: stands after {last.position.hex()}"
        if limit is None or letter.size <= limit:
            yield f"{name}: has {letter.size} bytes, and the limit is {limit}"
        last = letter
    for (topic, partition), records in log.events.items():
        for record in records:
            if record.offset == PUT_BACK or not record.streamed:
                continue  # rows of a snapshot met no limit
            if limit is not None and record.size > limit:
                yield f"{topic}[{partition}] at {record.offset}: {record.size} bytes, too large"


def _size(letter: DeadLetter) -> int:
    headers = sum(len(name.encode()) + len(text or b"") + 10 for name, text in letter.headers)
    return len(letter.value) + len(letter.key or b"") + headers
