"""One topic, read on and on: whatever there is, as soon as there is something.

For who hands records on and waits for nothing else: ``cdc.kafka.partition_reader`` reads up to
offsets that somebody names. It joins no group and commits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from cdc.errors import LogError
from cdc.kafka.login import Login
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import consumed, reading
from cdc.kafka.security import PLAINTEXT, Security

_AT_ONCE: Final = 500
_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 4_096,
    "topic.metadata.refresh.interval.ms": 300_000,
}


class TopicReader:
    """Connected at the first call. Use from one thread at a time; close at the end."""

    def __init__(self, bootstrap_servers: str, topic: str, security: Security = PLAINTEXT) -> None:
        self._bootstrap_servers, self._topic, self._security = bootstrap_servers, topic, security
        self._login = Login(security)
        self._client: Any = None
        self._at: dict[int, int] = {}

    def close(self) -> None:
        """Release connections. The next call would connect again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def read(
        self, at: Mapping[int, int], timeout_s: float
    ) -> tuple[list[FetchedRecord], dict[int, int]]:
        """Records from these offsets on, by partition, in the order of each, and the next offsets:
        those pass what holds no record, too. Nothing where nothing comes in ``timeout_s``, also
        while Kafka does not answer.

        Raises ``LogError`` where Kafka does not hold an offset, or the topic is not there.
        """
        self._go_to(at)
        self._login.renew(self._client)
        records = []
        for message in consumed(self._client, _AT_ONCE, timeout_s):
            partition, offset = message.partition(), message.offset()
            if (error := message.error()) is None:
                record = (self._topic, partition, offset, message.key(), message.value())
                records.append(FetchedRecord(*record))
                self._at[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at[partition] = max(self._at[partition], offset)
            elif message.topic() is not None and not error.retriable():
                self._at = {}  # what was given with it is fetched again
                where = f"{self._topic}-{partition} at offset {at.get(partition)}"
                raise LogError(f"reading {where}: {error.str()}")
        return records, dict(self._at)

    def _go_to(self, at: Mapping[int, int]) -> None:
        """Fetch from there on, unless that is where the last call ended."""
        if self._client is not None and self._at == at:
            return
        if self._client is None:
            self._login = Login(self._security)
            settings = reading(self._bootstrap_servers, self._security)
            self._client = Consumer({**settings, **_SETTINGS, "error_cb": self._login})
        self._client.assign([TopicPartition(self._topic, p, offset) for p, offset in at.items()])
        self._at = dict(at)
