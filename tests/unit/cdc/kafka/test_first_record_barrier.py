"""A partition's first record goes alone, also after a rest, and the others follow in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdc.capture.confirmation import Flight
from cdc.errors import LogError
from cdc.events.records import Block
from cdc.kafka.first_record_barrier import REST_S, Proving
from cdc.kafka.producer import Producer
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
    assert not proving.proven("t", {0: 0, 1: 0})
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
    assert not proving.proven("t", {0: 0, 1: 0})
    assert client.callbacks[1] is not None
    client.callbacks[1](None, "message")
    assert proving.proven("t", {0: 0, 1: 0})


def test_nothing_follows_a_first_record_that_was_refused() -> None:
    client, heard = Client(), []
    proving = Proving(client.produce)
    proving.proven("t", {0: 0})
    proving.produce("t", b"1", b"a", 0, lambda *said: heard.append(said), None, 1)
    proving.produce("t", b"2", b"a", 0, None, None, 1)
    assert client.callbacks[0] is not None
    client.callbacks[0]("refused", "message")
    proving.release()
    assert client.values == [b"1"]
    assert heard == [("refused", "message")]


class Rested:
    """Two partitions of a topic that were proven, at a time of day that a test sets."""

    def __init__(self) -> None:
        self.now, self.offsets = 1_000_000.0, {0: 0, 1: 0}
        self.client = Client()
        self.proving = Proving(self.client.produce, lambda: self.now)
        self.write(0, b"0")
        self.write(1, b"0")

    def write(self, partition: int, *values: bytes) -> list[bytes]:
        """Hand over records; what reached the client before the first acknowledgement. All are
        acknowledged at the end."""
        self.proving.proven("t", self.offsets)
        del self.client.values[:], self.client.callbacks[:]
        for value in values:
            self.proving.produce("t", value, b"k", partition, None, None, 1)
        at_once = list(self.client.values)
        for callback in self.client.callbacks:
            if callback is not None:
                callback(None, "message")
        self.proving.release()
        assert self.client.values == list(values)
        self.offsets[partition] += len(values)
        return at_once


def test_a_partition_that_rested_is_proven_again_and_a_busy_one_is_not() -> None:
    t = Rested()
    for _ in range(4):
        t.now += REST_S
        t.write(0, b"1")
    assert t.write(0, b"2", b"3") == [b"2", b"3"]
    assert t.write(1, b"2", b"3") == [b"2"]
    assert t.write(1, b"4", b"5") == [b"4", b"5"]
    assert t.proving.proven("t", t.offsets)


@pytest.mark.parametrize("gone", [4 * REST_S, 400 * 86_400, -400 * 86_400])
def test_after_a_time_in_which_nobody_looked_every_partition_is_proven_again(gone: float) -> None:
    t = Rested()
    t.now += gone
    assert t.write(0, b"1", b"2") == [b"1"]
    assert t.write(1, b"1", b"2") == [b"1"]
    assert t.proving.proven("t", t.offsets)


@pytest.mark.parametrize("step", [1.0, REST_S / 2, REST_S, 1.5 * REST_S, 1.99 * REST_S])
@pytest.mark.parametrize("phase", [0.0, 0.5, 0.99])
def test_no_rest_of_four_times_the_constant_goes_unnoticed(step: float, phase: float) -> None:
    t = Rested()
    t.now += phase * REST_S
    t.write(1, b"1")
    until = t.now + 4 * REST_S
    while t.now < until:
        t.now += step
        t.write(0, b"1")
    assert t.write(1, b"2", b"3") == [b"2"]


def test_what_is_held_when_a_partition_is_looked_at_stays_in_order() -> None:
    t = Rested()
    t.now += 2 * REST_S
    t.proving.proven("t", t.offsets)
    del t.client.values[:], t.client.callbacks[:]
    for value in (b"1", b"2"):
        t.proving.produce("t", value, b"k", 0, None, None, 1)
    t.now += 2 * REST_S
    assert not t.proving.proven("t", t.offsets)
    t.proving.produce("t", b"3", b"k", 0, None, None, 1)
    assert t.client.values == [b"1"]
    assert t.client.callbacks[0] is not None
    t.client.callbacks[0](None, "message")
    t.proving.release()
    assert t.client.values == [b"1", b"2", b"3"]


def test_a_record_without_a_partition_is_held_by_that_of_its_key() -> None:
    client = Client()
    proving = Proving(client.produce)
    proving.proven("t", dict.fromkeys(range(3), 0))
    proving.produce("t", b"1", b"a", partition_for(b"a", 3), None, None, 1)
    proving.produce("t", b"2", b"a", -1, None, None, 1)
    assert client.values == [b"1"]


def test_a_block_that_the_client_itself_does_not_take_is_an_error_in_our_words() -> None:
    producer = Producer("127.0.0.1:1", {"message.max.bytes": 2_000, "batch.size": 1_000})
    large = Block([b"k"], [b"x" * 5_000], [0], 5_000, {0: 1})
    with pytest.raises(LogError, match="does not accept a record"):
        producer.send({"t": [large]}, 5_000, Flight(1, 1))
