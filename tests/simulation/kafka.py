"""The simulated Kafka: a log for each partition, and the client that fills it.

What one client sends reaches each partition in order, and different partitions in any; a process
that dies leaves some prefix of what it had in flight, partition by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from typing import Any, Final, NamedTuple

from cdc.events.marks import Mark, decode_mark
from cdc.kafka.broker import Offsets, Record, TopicSpec
from cdc.topics import partition_for, progress_topic, schemas_topic, table_topic
from tests.simulation.faults import Chance, CrashError
from tests.simulation.wal import FIRST_LSN, TABLES

SOURCE = "s"
ADDED: Final = b"added"
"""The key of each row that `headwater table add` brings."""
_MOST_ADDED: Final = 60
OnDelivery = Callable[[Any, Any], None]
Headers = Sequence[tuple[str, bytes]]
_PROGRESS = progress_topic(SOURCE)


class Log:
    """What the cluster holds; in place of ``cdc.kafka.broker.Broker`` also how it is read."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.records: dict[tuple[str, int], list[Record]] = {}
        for topic, partitions in {**topics, _PROGRESS: 1, schemas_topic(SOURCE): 1}.items():
            self._create(topic, partitions)

    def append(
        self, topic: str, partition: int, value: bytes | None, key: bytes | None, at_ms: int,
        headers: Headers = (),
    ) -> int:  # fmt: skip
        """Write one record; its offset."""
        log = self.records[topic, partition]
        log.append(Record(partition, len(log), at_ms, key, value, headers))
        return len(log) - 1

    def add_rows(self, chance: Chance) -> None:
        """What `headwater table add` brings to a partition, between whatever capture sends."""
        rng = chance.rng
        topic = table_topic(SOURCE, "public", rng.choice(list(TABLES.values())))
        source = {"commit_lsn": rng.randrange(FIRST_LSN, 9 * FIRST_LSN), "ordinal": 0}
        row = dumps({"op": "r", "source": source}).encode()
        partition = rng.choice(self.partitions_of(topic))
        for _ in range(rng.randrange(1, _MOST_ADDED)):
            self.append(topic, partition, row, ADDED, 0)

    def mark(self) -> Mark:
        """The newest one."""
        value = self.records[_PROGRESS, 0][-1].value
        assert value is not None
        return decode_mark(value, _PROGRESS)

    def partitions_of(self, topic: str) -> list[int]:
        return [partition for name, partition in self.records if name == topic]

    def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            self._create(spec.name, spec.partitions)

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: count for topic in topics if (count := len(self.partitions_of(topic)))}

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: f"id of {topic}" for topic in topics}

    def end_offsets(self, topics: Sequence[str]) -> Offsets:
        return {
            topic: {p: len(self.records[topic, p]) for p in self.partitions_of(topic)}
            for topic in topics
        }

    def beginning_offsets(self, topics: Sequence[str]) -> Offsets:
        return {topic: dict.fromkeys(self.partitions_of(topic), 0) for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        return iter(self.records[topic, partition][start:end])

    def close(self) -> None:
        """Nothing to let go of."""

    def _create(self, topic: str, partitions: int) -> None:
        for partition in range(partitions):
            self.records.setdefault((topic, partition), [])


class _Sent(NamedTuple):
    """A record in flight."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    headers: Headers
    on_delivery: OnDelivery | None


class _Report(NamedTuple):
    """What a callback is given: where the record stands."""

    at: tuple[str, int, int]

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]


class Client:
    """In place of ``confluent_kafka.Producer``, of one process."""

    def __init__(self, log: Log, chance: Chance) -> None:
        self._log = log
        self._chance = chance
        self._in_flight: dict[tuple[str, int], list[_Sent]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._in_flight.values()))

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int,
        on_delivery: OnDelivery | None, _key_too: None = None, timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:  # fmt: skip
        if partition < 0:
            partition = partition_for(key, len(self._log.partitions_of(topic)))
        sent = _Sent(value, key, timestamp, headers or (), on_delivery)
        self._in_flight.setdefault((topic, partition), []).append(sent)

    def poll(self, _timeout_s: float = 0) -> None:
        """Each partition takes some of what is in flight to it, and reports it."""
        for topic, partition in list(self._in_flight):
            if self._chance.strikes(self._chance.faults.table_add):
                self._log.add_rows(self._chance)
            for sent in self._taken(topic, partition, self._share(topic, partition)):
                offset = self._write(topic, partition, sent)
                if sent.on_delivery is not None:
                    sent.on_delivery(None, _Report((topic, partition, offset)))
        if self._chance.strikes(self._chance.faults.crash_in_poll):
            raise CrashError

    def die(self) -> None:
        """The process is gone: some of what was in flight was written, and nobody heard of it."""
        if self._chance.faults.table_add:
            self._log.add_rows(self._chance)
        for topic, partition in list(self._in_flight):
            count = len(self._in_flight[topic, partition])
            for sent in self._taken(topic, partition, self._chance.rng.randrange(count + 1)):
                self._write(topic, partition, sent)

    def _share(self, topic: str, partition: int) -> int:
        """How many of a partition's records it takes now."""
        count = len(self._in_flight[topic, partition])
        if not self._chance.strikes(self._chance.faults.slow_partition):
            return count
        return self._chance.rng.choice((0, self._chance.rng.randrange(count + 1)))

    def _taken(self, topic: str, partition: int, count: int) -> list[_Sent]:
        waiting = self._in_flight[topic, partition]
        self._in_flight[topic, partition] = waiting[count:]
        return waiting[:count]

    def _write(self, topic: str, partition: int, sent: _Sent) -> int:
        return self._log.append(
            topic, partition, sent.value, sent.key, sent.timestamp, sent.headers
        )
