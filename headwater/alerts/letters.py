"""Dead letters of alerts on rows: messages that a webhook did not take, in a compacted topic.

A record's key names alert and message, its value is the body as it was to be sent; a record without
a value says that the letter waits no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cdc.config import Config
from cdc.events.records import Record
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.bulk_producer import BulkProducer
from cdc.topics import row_letters_topic

_LARGEST: Final = 1_000_000
"""The least that the topic takes, in bytes: what capture sends unless told otherwise."""
_BESIDE_BYTES: Final = 64 << 10
"""What a letter may weigh more than its event."""


class Letter(NamedTuple):
    """``id`` is that of the message; ``place`` of its event, ``topic-partition-offset``."""

    alert: str
    id: str
    key: str | None
    place: str
    cause: str
    body: bytes
    since_ms: int = 0


class LetterBox:
    """Use from one thread; close at the end."""

    def __init__(self, config: Config) -> None:
        self._config, self._topic = config, row_letters_topic(config.source.name)
        self._producer: BulkProducer | None = None

    def close(self) -> None:
        """Release connections."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def write(self, letter: Letter) -> None:
        """Durable when it returns. Raises ``RetryableError`` where Kafka does not answer."""
        self._send([letter_record(letter)])

    def settle(self, letters: Iterable[Letter]) -> None:
        """These wait no more."""
        self._send([{**letter_record(one), "value": None, "headers": []} for one in letters])

    def open(self, alert: str = "") -> list[Letter]:
        """Those that wait, of an alert or of all, in the order in which they were written."""
        return opened(self._records(alert))

    def count(self, alert: str) -> int:
        """How many wait; none of their messages is kept in memory for it."""
        waiting = set[bytes]()
        for record in self._records(alert):
            (waiting.discard if record.value is None else waiting.add)(record.key)
        return len(waiting)

    def _records(self, alert: str) -> Iterator[Any]:
        """Of an alert, or of all."""
        kafka, of_alert = self._config.kafka, f"{alert}:".encode() if alert else b""
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            if self._topic not in broker.partitions([self._topic]):
                return
            begin = broker.beginning_offsets([self._topic])[self._topic][0]
            end = broker.end_offsets([self._topic])[self._topic][0]
            for record in broker.read(self._topic, 0, begin, end):
                if record.key is not None and record.key.startswith(of_alert):
                    yield record

    def _send(self, records: Sequence[Record]) -> None:
        kafka = self._config.kafka
        if self._producer is None:
            largest = max(int(kafka.producer.get("message.max.bytes", _LARGEST)), _LARGEST)
            largest += _BESIDE_BYTES
            settings = {"cleanup.policy": "compact", "max.message.bytes": str(largest)}
            with Broker(kafka.bootstrap_servers, kafka) as broker:
                broker.create_topics(
                    [TopicSpec(self._topic, 1, kafka.replication_factor, settings)]
                )
            self._producer = BulkProducer(
                kafka.bootstrap_servers,
                {**kafka.producer, "message.max.bytes": largest},
                security=kafka,
            )
        self._producer.send_records(self._topic, records)
        self._producer.flush()


def letter_record(letter: Letter) -> Record:
    """As it stands in the topic. Pure."""
    told = letter._asdict()
    del told["body"], told["since_ms"]
    return {
        "key": f"{letter.alert}:{letter.id}".encode(),
        "value": letter.body,
        "partition": 0,
        "headers": [("letter", json.dumps(told, ensure_ascii=False).encode())],
    }


def opened(records: Iterable[Any]) -> list[Letter]:
    """What waits, of the topic's records in order. Pure."""
    found: dict[bytes, Letter] = {}
    for record in records:
        found.pop(record.key, None)
        if record.value is not None:
            told = json.loads(dict(record.headers)["letter"])
            found[record.key] = Letter(**told, body=record.value, since_ms=record.timestamp_ms)
    return list(found.values())
