"""A Kafka in memory: what is asked of a broker where no server is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from cdc.errors import LogError, RetryableError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Commit, Offsets, Place, Record, Stretch

PROGRESS = "s.__progress"
TABLE = "s.public.t"


class LogInMemory(Broker):
    """What is asked of a broker; ``on_look`` happens before each look at a group."""

    def __init__(self) -> None:
        self.records: dict[str, list[bytes | None]] = {PROGRESS: [], TABLE: []}
        self.groups: dict[str, Offsets] = {}
        self.gone = 0
        self.away = 0
        self.turns = 0

    def close(self) -> None:
        """Nothing is open."""

    def _answer(self) -> None:
        """Kafka is away for so many questions."""
        if self.away:
            self.away -= 1
            raise RetryableError("Kafka does not answer", "is it running?")

    def mark(self, confirmed: int) -> None:
        """Capture has come so far."""
        offsets = {TABLE: {0: len(self.records[TABLE])}}
        mark = Mark(confirmed, offsets, "1", 1, "db", "slot")
        self.records[PROGRESS].append(mark.encode(0))

    def change(self, lsn: int) -> None:
        self.records[TABLE].append(json.dumps({"source": {"commit_lsn": lsn}}).encode())

    def apply(self, view: str, upto: int) -> None:
        self.groups[f"headwater.{view}"] = {TABLE: {0: upto}}

    def committed(self, group: str, topics: Sequence[str]) -> Offsets:
        self._answer()
        return {t: at for t, at in self.groups.get(group, {}).items() if t in topics}

    def commits(self, group: str, topics: Sequence[str]) -> dict[tuple[str, int], Commit]:
        found = self.committed(group, topics)
        return {(t, p): Commit(at, None) for t, ends in found.items() for p, at in ends.items()}

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic in self.records}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        self._answer()
        if absent := [topic for topic in topics if topic not in self.records]:
            raise LogError(f"no topic {absent[0]}")
        return {topic: {0: len(self.records[topic])} for topic in topics}

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: self.gone if topic == TABLE else 0} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for offset in range(start, end):
            yield Record(partition, offset, 0, b"", self.records[topic][offset])

    def first_values(self, wanted: Mapping[Place, Stretch]) -> dict[Place, list[Record]]:
        self.turns += 1
        found: dict[Place, list[Record]] = {}
        for place, stretch in wanted.items():
            for record in self.read(*place, *stretch):
                found.setdefault(place, []).append(record)
                if record.value is not None:
                    break
        return found
