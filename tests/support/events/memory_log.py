"""What commands ask of Kafka, over records in memory: capture is at every LSN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Offsets, Record
from cdc.topics import progress_topic, table_topic

_EVERYWHERE = 1 << 62


class LogInMemory(Broker):
    """Topics of one partition. ``applied`` is what the group of every view has committed."""

    def __init__(self, source: str, *tables: str) -> None:
        super().__init__("nowhere:1")  # connected to by no call
        self.source, self._progress = source, progress_topic(source)
        self.records: dict[str, list[tuple[bytes, bytes | None]]] = {
            table_topic(source, "public", table): [] for table in tables
        }
        self.applied: Offsets = {topic: {0: 0} for topic in self.records}

    def close(self) -> None:
        """Nothing is open."""

    @property
    def ends(self) -> Offsets:
        return {topic: {0: len(records)} for topic, records in self.records.items()}

    def committed(self, group: str, topics: Sequence[str]) -> Offsets:  # noqa: ARG002
        return {topic: self.applied[topic] for topic in topics}

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic in self.records or topic == self._progress}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: self.ends.get(topic, {0: 1}) for topic in topics}

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: {0: 0} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        if topic == self._progress:
            mark = Mark(_EVERYWHERE, dict(self.ends), "1", 1, "db", "slot")
            yield Record(partition, start, 0, b"", mark.encode(0))
            return
        for offset in range(start, end):
            key, value = self.records[topic][offset]
            yield Record(partition, offset, 0, key, value)
