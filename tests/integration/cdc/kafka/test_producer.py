"""Blocks of records on a real broker: what is acknowledged, and what is refused loudly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from cdc.capture.confirmation import Flight
from cdc.errors import LogError
from cdc.events.records import Block, Record
from cdc.kafka import first_record_barrier as proving
from cdc.kafka.broker import Broker
from cdc.kafka.producer import Producer
from stack import servers
from tests.support.waiting import wait_until

PARTITIONS = 2


@pytest.fixture
def topic(kafka: str, source_name: str) -> str:
    create(kafka, source_name)
    return source_name


def create(kafka: str, name: str, **configs: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=settings)])
    admin.close()


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[str]:
    """A broker that soon knows nothing of a producer that rests."""
    settings = {"producer.id.expiration.ms": "1", "producer.id.expiration.check.interval.ms": "50"}
    home = tmp_path / "forgetful"
    try:
        yield servers.start(home, ["kafka"], {"kafka": settings}).kafka_bootstrap
    finally:
        servers.purge(home)


def block(rows: int, value: bytes = b"v") -> Block:
    """Rows that take turns in the partitions."""
    keys: list[bytes | None] = [b"%d" % i for i in range(rows)]
    values: list[bytes | None] = [value for _ in range(rows)]
    partitions = [i % PARTITIONS for i in range(rows)]
    closing = {rows - 2: rows // 2, rows - 1: rows // 2}
    return Block(keys, values, partitions, 0, closing)


def settle(producer: Producer, flight: Flight) -> None:
    def done() -> bool:
        producer.poll(0.01)
        return flight.pending == 0

    wait_until(done, "the block to be acknowledged")


def deliver(
    producer: Producer, records: dict[str, Sequence[Record | Block]], flight: Flight
) -> None:
    """A busy machine hears of a refusal while it still hands over."""
    producer.send(records, 100, flight)
    settle(producer, flight)


def test_a_block_is_acknowledged_once_a_partition_and_counts_every_record(
    kafka: str, topic: str
) -> None:
    producer = Producer(kafka)
    producer.next_offsets[topic] = dict.fromkeys(range(PARTITIONS), 0)
    single: Record = {"key": b"k", "value": b"1", "partition": 1}
    flight = Flight(1 + PARTITIONS + PARTITIONS, 1)
    before = int(time())
    producer.send({topic: [block(1000), single, block(10)]}, 100, flight)
    settle(producer, flight)
    assert producer.next_offsets[topic] == {0: 505, 1: 506}
    with Broker(kafka) as broker:
        held = [list(broker.read(topic, p, 0, 505 + p)) for p in range(PARTITIONS)]
    assert [record.key for record in held[0][:3]] == [b"0", b"2", b"4"]
    assert held[1][500].value == b"1"
    times = [record.timestamp_ms for records in held for record in records]
    assert before <= min(times) / 1000, "the client's time, whatever the source's clock says"
    assert max(times) / 1000 <= time()


def test_a_topic_that_refuses_a_record_inside_a_block_is_an_error(
    kafka: str, source_name: str
) -> None:
    create(kafka, source_name, max_message_bytes="2000")
    producer = Producer(kafka, {"batch.size": 1000, "compression.type": "none"})
    producer.next_offsets[source_name] = dict.fromkeys(range(PARTITIONS), 0)
    rows = block(10)
    rows.values[4] = b"x" * 5000
    flight = Flight(PARTITIONS, 1)
    with pytest.raises(LogError, match="Message size too large"):
        deliver(producer, {source_name: [rows]}, flight)
    assert flight.pending, "what was refused must never count as durable"


@pytest.mark.parametrize("as_block", [False, True])
def test_nothing_stands_behind_a_first_record_that_was_refused(
    kafka: str, source_name: str, *, as_block: bool
) -> None:
    create(kafka, source_name, max_message_bytes="2000")
    # A batch each, of which the client has several on their way.
    producer = Producer(kafka, {"batch.num.messages": 1, "compression.type": "none"})
    producer.next_offsets[source_name] = dict.fromkeys(range(PARTITIONS), 0)
    rows = block(12)
    rows.values[0] = b"x" * 5000
    singles: list[Record] = [
        {"key": key, "value": value, "partition": partition}
        for key, value, partition in zip(rows.keys, rows.values, rows.partitions, strict=True)
    ]
    flight = Flight(PARTITIONS if as_block else 12, 1)
    with pytest.raises(LogError, match="Message size too large"):
        deliver(producer, {source_name: [rows] if as_block else singles}, flight)
    with suppress(LogError):
        producer.flush(10)
    with Broker(kafka) as broker:
        assert broker.end_offsets([source_name])[source_name][0] == 0


def test_partitions_that_are_added_to_a_topic_are_an_error_with_nothing_in_them(
    kafka: str, topic: str
) -> None:
    often = {"topic.metadata.refresh.interval.ms": 100, "statistics.interval.ms": 100}
    producer = Producer(kafka, often)
    producer.next_offsets[topic] = dict.fromkeys(range(PARTITIONS), 0)
    flight = Flight(PARTITIONS, 1)
    producer.send({topic: [block(10)]}, 100, flight)
    settle(producer, flight)
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.create_partitions({topic: PARTITIONS + 1})
    admin.close()

    def noticed() -> bool:
        producer.poll(0.01)
        return False

    with pytest.raises(LogError, match=f"{topic} has 3 partitions but had 2 when capture started"):
        wait_until(noticed, "the partition to be noticed")


def test_records_missing_ahead_of_a_block_s_last_are_noticed(kafka: str, topic: str) -> None:
    producer = Producer(kafka)
    producer.next_offsets[topic] = dict.fromkeys(range(PARTITIONS), 400)
    flight = Flight(PARTITIONS, 1)
    with pytest.raises(LogError, match="which was not expected"):
        deliver(producer, {topic: [block(1000)]}, flight)


def test_nothing_stands_behind_a_refused_record_of_a_producer_that_the_broker_forgot(
    forgetful: str, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(forgetful, source_name, max_message_bytes="2000")
    producer = Producer(forgetful, {"batch.num.messages": 1, "compression.type": "none"})
    producer.next_offsets[source_name] = dict.fromkeys(range(PARTITIONS), 0)
    first = Flight(PARTITIONS, 1)
    producer.send({source_name: [block(PARTITIONS)]}, 100, first)
    settle(producer, first)
    admin = KafkaAdminClient(bootstrap_servers=forgetful)
    place = TopicPartition(source_name, 0)

    def forgot() -> bool:
        return not admin.describe_producers([place])[place].active_producers

    wait_until(forgot, "the broker to forget its producer")
    admin.close()
    rows = block(12)
    rows.values[0] = b"x" * 5000
    monkeypatch.setattr(proving, "REST_S", 0)
    flight = Flight(PARTITIONS, 1)
    with pytest.raises(LogError, match="Message size too large"):
        deliver(producer, {source_name: [rows]}, flight)
    with suppress(LogError):
        producer.flush(10)
    with Broker(forgetful) as broker:
        assert broker.end_offsets([source_name])[source_name][0] == 1
