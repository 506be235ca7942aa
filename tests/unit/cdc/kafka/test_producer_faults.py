"""What capture says when Kafka's client gives up, which its own thread tells a moment later."""

from __future__ import annotations

from typing import Any, Never

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdc.capture.confirmation import Flight
from cdc.errors import LogError
from cdc.events.records import Block
from cdc.kafka.producer import Producer

REASON = "Broker: Message size too large"


class GivenUp:
    """A client after a fatal error: it takes nothing, and says why when it is polled again."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def produce(self, *_: Any) -> Never:
        raise KafkaException(KafkaError(KafkaError._FATAL, "Fatal error"))

    def poll(self, _timeout_s: float) -> None:
        self.silent -= 1
        if self.silent < 0:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, REASON, fatal=True))


@pytest.mark.parametrize("silent", [0, 3])
def test_the_reason_of_a_fatal_error_is_told(monkeypatch: pytest.MonkeyPatch, silent: int) -> None:
    producer = Producer("127.0.0.1:1")
    monkeypatch.setattr(producer, "_producer", GivenUp(silent))
    with pytest.raises(LogError, match=REASON):
        producer.send({"t": [{"key": b"k", "value": b"v"}]}, 2, Flight(1, 1))


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        (REASON, "Raise max.message.bytes"),
        ("1 message delivery failed: Broker: Invalid timestamp: gap-less guarantee", "the clock"),
        ("Broker: Unknown topic", "Fix the topic"),
    ],
)
def test_a_fatal_error_names_the_way_out(said: str, way_out: str) -> None:
    producer = Producer("127.0.0.1:1")
    producer._on_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, said, fatal=True))
    with pytest.raises(LogError) as caught:
        producer.poll()
    assert way_out in caught.value.hint


def test_the_client_stamps_each_record_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's clock may be hours ahead, and the commit be older than the topic's retention."""
    producer, given = Producer("127.0.0.1:1"), list[tuple[Any, ...]]()

    class Client:
        def produce(self, *arguments: Any) -> None:
            given.append(arguments)

    monkeypatch.setattr(producer, "_producer", Client())
    block = Block([b"k"], [b"v"], [0], 2, {0: 1})
    producer.send({"t": [{"key": b"k", "value": b"v"}, block]}, 2, Flight(2, 1))
    assert [arguments[6:7] for arguments in given] == [(0,), ()]  # 0 is the client's default, too
