"""From where on a partition has to be searched for what a mark does not cover. Pure.

A mark's offsets may count records of transactions above its LSN, and `headwater table add` puts
snapshot rows behind them. So a mark has floors, too: below these offsets no record is of a
transaction above its LSN. What stood in Kafka at a moment is such a floor as soon as a mark covers
the newest change that had been handed over by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Offsets: TypeAlias = dict[str, dict[int, int]]
"""Offsets by topic and partition, as `cdc.kafka.broker` has them."""


def unbounded(floors: Offsets, starts: Offsets, ends: Offsets) -> int:
    """How many records there are to search where no floor is above the beginning of its partition,
    as after a mark of a version that knew no floors; else 0."""
    held = 0
    for topic, of_topic in ends.items():
        for partition, end in of_topic.items():
            start = starts[topic][partition]
            if floors.get(topic, {}).get(partition, 0) > start:
                return 0
            held += end - start
    return held


@dataclass(slots=True)
class Floors:
    """``held`` are those of the newest mark. ``newest`` is the commit LSN of the newest change that
    was handed to the producer, or that Kafka held before."""

    held: Offsets = field(default_factory=dict)
    newest: int = 0
    _waiting: tuple[int, Offsets] | None = None

    def handed_over(self, commit_lsn: int) -> None:
        """A change goes to the producer."""
        self.newest = max(self.newest, commit_lsn)

    def opened(self, topic: str, ends: dict[int, int]) -> None:
        """Nothing was handed over to a topic yet."""
        self.held[topic] = dict(ends)
        if self._waiting is not None:
            self._waiting[1][topic] = dict(ends)

    def at(self, lsn: int, ends: Offsets) -> Offsets:
        """Those of a mark that covers ``lsn``; ``ends`` is where partitions end now, or before."""
        if self._waiting is not None and self._waiting[0] <= lsn:
            self.held, self._waiting = self._waiting[1], None
        if self._waiting is None:
            now = {topic: dict(of_topic) for topic, of_topic in ends.items()}
            if self.newest <= lsn:
                self.held = now
            else:
                self._waiting = self.newest, now
        return self.held
