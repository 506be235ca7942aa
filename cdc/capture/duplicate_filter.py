"""What not to publish again after a restart. Pure.

The server repeats every transaction that was not confirmed. Kafka may hold part of them: the
producer is idempotent, so a partition holds a prefix of what was meant for it, and the position of
its last streamed record tells how long that prefix is. The records that follow are published, the
others dropped; together the partition has each exactly once.

Whether an event is too large is not the same after each restart: it may hold values that were
looked up, and says where the transaction before it ended. A dead letter is acknowledged before any
record behind it is handed over (``cdc.kafka.producer``). So what a partition has passed is in it or
a dead letter, whatever its size would be now; and what is a dead letter is none of its records. An
event may be a dead letter of each topic that it is meant for, so the topic of dead letters is read
for whole ones, by topic and position; its end says nothing of a letter that is not among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cdc.events.records import Record, Replay
from cdc.lsn import Position
from cdc.topics import partition_for


class Tail(NamedTuple):
    """The end of one partition: the position of its last streamed record, ``None`` when it has
    none, and whether that record is a delete whose tombstone did not make it."""

    position: Position | None
    delete_without_tombstone: bool = False


class KafkaReplay:
    """Held is all up to ``lsn`` (of the newest ``__progress`` record), and what the tails say.

    ``letters`` are the whole dead letters above ``lsn``, by the topic they were meant for.
    """

    def __init__(
        self,
        lsn: int,
        tails: Mapping[tuple[str, int], Tail],
        partitions: Mapping[str, int],
        letters: Collection[tuple[str, Position]] = (),
    ) -> None:
        self._lsn = lsn
        self._letters = letters
        self._tails = tails
        self._partitions = partitions
        positions = [tail.position for tail in tails.values() if tail.position is not None]
        self._last = max([Position(lsn, 0), *positions])

    @property
    def newest(self) -> int:
        """The commit LSN of the newest event that Kafka held."""
        return self._last.commit_lsn

    def holds(self, topic: str, record: Record, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        if position.commit_lsn <= self._lsn:
            return True
        partition = record.get("partition")
        if partition is None:
            partition = partition_for(record["key"], self._partitions[topic])
        tail = self._tails.get((topic, partition))
        if tail is None or tail.position is None or position > tail.position:
            return False
        tombstone_lost = record["value"] is None and tail.delete_without_tombstone
        return position < tail.position or not tombstone_lost

    def lettered(self, topic: str, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        return (topic, position) in self._letters

    def passed(self, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        return position > Position(self._last.commit_lsn, 2**32)


class SessionReplay:
    """Held is what this process has already handed to its producer, in earlier sessions."""

    def __init__(self, published: Position, before: Replay | None) -> None:
        self._published = published
        self._before = before

    def holds(self, topic: str, record: Record, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        if position <= self._published:
            return True
        return self._before is not None and self._before.holds(topic, record, position)

    def lettered(self, topic: str, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        return self._before is not None and self._before.lettered(topic, position)

    def passed(self, position: Position) -> bool:
        """See ``cdc.events.records.Replay``."""
        before = self._before is None or self._before.passed(position)
        return before and position > self._published
