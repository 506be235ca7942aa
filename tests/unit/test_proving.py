"""A partition's first record goes alone, and the others follow in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdc.capture.progress import Flight
from cdc.errors import LogError
from cdc.events.records import Block
from cdc.kafka.producer import Producer
from cdc.kafka.proving import Proving
from cdc.topics import partition_for


class Client:
    """What was produced, and the acknowledgements that are asked for."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.callbacks: list[Callable[[Any, Any], None] | None] = []

    def produce(
        self, _topic: str, value: bytes, _key: Any, _partition: int, on_delivery: Any, *_: Any
    ) -> None:
        self.values.append(value)
        self.callbacks.append(on_delivery)


def test_what_follows_a_first_record_waits_for_its_acknowledgement() -> None:
    client, heard = Client(), []
    proving = Proving(client.produce)
    assert not proving.proven("t", [0, 1])
    proving.produce("t", b"1", b"a", 0, None, None, 1)
    proving.produce("t", b"2", b"a", 0, lambda *said: heard.append(said), None, 1)
    proving.produce("t", b"3", b"b", 1, None, None, 1)
    proving.produce("t", b"4", b"a", 0, None, None, 1)
    assert client.values == [b"1", b"3"]
    assert client.callbacks[0] is not None
    client.callbacks[0](None, "message")
    assert client.values == [b"1", b"3"]
    proving.release()
    assert client.values == [b"1", b"3", b"2", b"4"]
    proving.produce("t", b"5", b"a", 0, None, None, 1)
    assert client.values[-1] == b"5"
    assert not proving.proven("t", [0, 1])
    assert client.callbacks[1] is not None
    client.callbacks[1](None, "message")
    assert proving.proven("t", [0, 1])


def test_nothing_follows_a_first_record_that_was_refused() -> None:
    client, heard = Client(), []
    proving = Proving(client.produce)
    proving.proven("t", [0])
    proving.produce("t", b"1", b"a", 0, lambda *said: heard.append(said), None, 1)
    proving.produce("t", b"2", b"a", 0, None, None, 1)
    assert client.callbacks[0] is not None
    client.callbacks[0]("refused", "message")
    proving.release()
    assert client.values == [b"1"]
    assert heard == [("refused", "message")]


def test_a_record_without_a_partition_is_held_by_that_of_its_key() -> None:
    client = Client()
    proving = Proving(client.produce)
    proving.proven("t", range(3))
    proving.produce("t", b"1", b"a", partition_for(b"a", 3), None, None, 1)
    proving.produce("t", b"2", b"a", -1, None, None, 1)
    assert client.values == [b"1"]


def test_a_block_that_the_client_itself_does_not_take_is_an_error_in_our_words() -> None:
    producer = Producer("127.0.0.1:1", {"message.max.bytes": 2_000, "batch.size": 1_000})
    large = Block([b"k"], [b"x" * 5_000], [0], [1], 5_000, {0: 1})
    with pytest.raises(LogError, match="takes no record"):
        producer.send({"t": [large]}, 5_000, Flight(1, 1))
