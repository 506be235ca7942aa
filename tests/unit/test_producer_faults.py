"""What capture says when Kafka's client gives up, which its own thread tells a moment later."""

from __future__ import annotations

from typing import Any, Never

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdc.capture.progress import Flight
from cdc.errors import LogError
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
