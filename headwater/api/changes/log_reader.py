"""Records of one topic as entries, read on and on from offsets. Blocks: for threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cdc.config import Config
from cdc.errors import HeadwaterError, LogError
from cdc.kafka.broker import Broker
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.topic_reader import TopicReader
from headwater.api.changes.event_position import ForeignRecordError, event_of
from headwater.api.changes.ring import Entry

_NO_ID: Final = "0"
"""Of a broker before Kafka 2.8."""


class GoneError(HeadwaterError):
    """The log does not hold what a client needs next; ``reason`` is a word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, "connect without Last-Event-ID to begin with a new snapshot")
        self.reason = reason


class Log(NamedTuple):
    """A topic, or another log (``origin``), as it is now: the offsets that it holds, by partition,
    from and up to without. ``remade`` is the reason where it is another one than before."""

    topic: str
    topic_id: str
    begin: tuple[int, ...]
    end: tuple[int, ...]
    remade: str = "recreated"

    def refuse(self, topic_id: str, offsets: Sequence[int]) -> None:
        """Raise ``GoneError`` where a client's next offsets cannot be read."""
        if topic_id != self.topic_id:
            raise GoneError(self.remade, f"{self.topic} is another one than the id's")
        if len(offsets) != len(self.end):
            raise GoneError("partitions", f"{self.topic} has another number of partitions")
        for partition, at in enumerate(offsets):
            where = f"{self.topic}-{partition}"
            if at < self.begin[partition]:
                raise GoneError("retention", f"{where} no longer holds offset {at}, the next one")
            if at > self.end[partition]:
                raise GoneError(
                    "future", f"{where}: offset {at} is beyond the end, {self.end[partition]}"
                )


def log_now(broker: Broker, topic: str) -> Log:
    """Raises ``LogError`` where there is no such topic, ``RetryableError`` while Kafka is away."""
    begin, end = broker.beginning_offsets([topic])[topic], broker.end_offsets([topic])[topic]
    topic_id = broker.topic_ids([topic]).get(topic) or _NO_ID
    parts = sorted(end)
    return Log(topic, topic_id, tuple(begin[p] for p in parts), tuple(end[p] for p in parts))


class LogReader:
    """Reads one topic. Use from one thread at a time; close at the end."""

    def __init__(self, config: Config, topic: str) -> None:
        self._reader = TopicReader(config.kafka.bootstrap_servers, topic, config.kafka)

    def close(self) -> None:
        self._reader.close()

    def read(self, at: Mapping[int, int], timeout_s: float) -> tuple[list[Entry], dict[int, int]]:
        """Some of what stands from ``at`` on, and the next offsets. Nothing where nothing comes in
        ``timeout_s``.

        Raises ``GoneError`` where Kafka no longer holds ``at`` or a value is no event of ours.
        """
        try:
            records, reached = self._reader.read(at, timeout_s)
        except LogError as error:
            raise GoneError("retention", error.message) from error
        return entries_of(records), reached


def entries_of(records: Iterable[FetchedRecord]) -> list[Entry]:
    """Those that have a value. Raises ``GoneError`` for a value that is no event of ours."""
    found = []
    for record in records:
        if record.value is None:
            continue
        try:
            event = event_of(record.value)
        except ForeignRecordError as error:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise GoneError("foreign", f"{where}: {error}") from None
        found.append(
            Entry(record.partition, record.offset, record.key, record.value, event.position,
                  event.op)
        )  # fmt: skip
    return found
