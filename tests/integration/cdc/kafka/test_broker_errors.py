"""What of a broker's errors passes, and is asked again; an address that answers to nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError, UnknownBrokerIdError, UnknownError

from cdc.errors import LogError, RetryableError
from cdc.kafka.broker import (
    Broker,
    TopicSpec,
)
from cdc.kafka.broker.connection import Connection
from stack.ports import free_port


@pytest.fixture
def broker(kafka: str) -> Iterator[Broker]:
    with Broker(kafka) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, source_name: str) -> str:
    name = f"{source_name}.public.orders"
    broker.create_topics([TopicSpec(name, 2)])
    return name


def test_an_unreachable_broker_is_one_clear_line_within_seconds() -> None:
    address = f"127.0.0.1:{free_port(set())}"
    began = time.monotonic()
    with pytest.raises(RetryableError) as caught:
        Broker(address).partitions(["x"])
    assert time.monotonic() - began < 20  # at once; a client's own patience is a minute or more
    assert str(caught.value) == (
        f"cannot connect to Kafka at {address}: Connection refused. "
        "Check that Kafka is running, and kafka.bootstrap_servers."
    )


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(LogError, match="'localhost' is not HOST:PORT"):
        Broker("localhost").partitions(["x"])


@pytest.mark.parametrize("passing", [UnknownBrokerIdError, UnknownError])
def test_what_passes_after_a_brokers_restart_is_asked_again(passing: type[KafkaError]) -> None:
    assert isinstance(Connection("localhost:1").error("reading", passing()), RetryableError)


@pytest.mark.parametrize("passing", [UnknownBrokerIdError, UnknownError])
def test_a_question_outlives_an_error_that_passes(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, passing: type[KafkaError]
) -> None:
    describe, failures = KafkaAdminClient.describe_topics, [passing(), passing()]

    def failing_at_first(admin: KafkaAdminClient, *args: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return describe(admin, *args, **named)

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", failing_at_first)
    assert broker.partitions([topic]) == {topic: 2}
    assert not failures


def test_a_read_outlives_an_error_that_passes(
    broker: Broker, topic: str, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, b"v", b"k", 0)
    assert producer.flush(120) == 0
    poll, failures = KafkaConsumer.poll, [UnknownError(), UnknownError()]

    def failing_at_first(reader: KafkaConsumer, *args: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return poll(reader, *args, **named)

    monkeypatch.setattr(KafkaConsumer, "poll", failing_at_first)
    assert [record.value for record in broker.read(topic, 0, 0, 1)] == [b"v"]
    assert not failures
