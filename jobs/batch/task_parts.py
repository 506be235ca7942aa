"""How a large batch is divided among tasks: a key's records are all read by the same one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple
from zlib import crc32

from cdc.kafka.broker import Offsets
from cdc.kafka.range_reader import Stretch
from jobs.batch.thresholds import TASK_RECORDS

_UNEVEN = 1.5
"""So many times a task's share may be one partition."""


class Part(NamedTuple):
    """Of a partition's records those whose keys are of slice ``number`` of so many ``slices``."""

    stretch: Stretch
    number: int = 0
    slices: int = 1

    def has(self, key: bytes | None, offset: int) -> bool:
        """Whether a record is one of the part's; those without a key are by their offsets."""
        return (offset if key is None else crc32(key)) % self.slices == self.number

    def halves(self) -> tuple[Part, Part]:
        """Two parts of the same records."""
        twice = self.slices * 2
        return (
            Part(self.stretch, self.number, twice),
            Part(self.stretch, self.number + self.slices, twice),
        )


def divided(begin: Offsets, end: Offsets, tasks: int) -> list[list[Part]]:
    """The parts that each task reads, of about as many records; none is without. What ``begin``
    does not name counts from 0."""
    stretches = [
        Stretch(topic, partition, low, high)
        for topic, of_topic in end.items()
        for partition, high in of_topic.items()
        if (low := begin.get(topic, {}).get(partition, 0)) < high
    ]
    share = max(sum(map(_length, stretches)) / max(tasks, 1), TASK_RECORDS)
    parts = sorted(
        (part for stretch in stretches for part in _parts(stretch, share)),
        key=lambda part: _length(part.stretch) / part.slices,
        reverse=True,
    )
    found: list[list[Part]] = [[] for _ in range(min(max(tasks, 1), len(parts)))]
    loads = [0.0] * len(found)
    for part in parts:
        least = min(range(len(found)), key=loads.__getitem__)
        found[least].append(part)
        loads[least] += _length(part.stretch) / part.slices
    return found


def _parts(stretch: Stretch, share: float) -> Iterator[Part]:
    length = _length(stretch)
    slices = 1 if length <= share * _UNEVEN else next(n for n in count(2) if length <= share * n)
    for number in range(slices):
        yield Part(stretch, number, slices)


def _length(stretch: Stretch) -> int:
    return stretch.end - stretch.begin
