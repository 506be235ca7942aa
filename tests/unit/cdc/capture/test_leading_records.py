"""What has to be in Kafka before the records that go with it: the versions of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from cdc.capture.confirmation import Flight
from cdc.capture.topic_setup import Topics
from cdc.config import Config
from cdc.events.records import Record
from cdc.kafka.broker import Broker
from cdc.kafka.producer import Producer

CONFIG = Config.model_validate(
    {
        "source": {"name": "s", "dsn": "dbname=unused", "tables": ["public.t"]},
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
    }
)


class Slow:
    """A client whose broker acknowledges what it is told to."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self._waiting: list[Callable[[Any, Any], None]] = []

    def produce(self, topic: str, *more: Any) -> None:
        self.topics.append(topic)
        self._waiting.append(more[3])

    def poll(self, _timeout_s: float) -> None:
        pass

    def acknowledge(self) -> None:
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            told(None, None)


def record() -> Record:
    return {"key": b"k", "value": b"v"}


def test_no_row_is_in_kafka_before_its_version_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic has leaders of its own: where one is elected, the others go on."""
    producer, client = Producer("127.0.0.1:1"), Slow()
    monkeypatch.setattr(producer, "_producer", client)
    Topics(CONFIG, cast("Broker", None), producer, lambda *_: None)
    flights = Flight(3, 1), Flight(1, 2)
    producer.send({"s.public.t": [record()], "s.__schemas": [record(), record()]}, 6, flights[0])
    producer.send({"s.public.t": [record()]}, 2, flights[1])
    producer.poll()
    assert client.topics == ["s.__schemas"] * 2
    client.acknowledge()
    producer.poll()
    assert client.topics == ["s.__schemas"] * 2 + ["s.public.t"] * 2
    client.acknowledge()
    assert [flight.pending for flight in flights] == [0, 0]
