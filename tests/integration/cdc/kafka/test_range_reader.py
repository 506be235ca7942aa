"""Stretches of a real Kafka's partitions, read by librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc.errors import LogError, RetryableError
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.range_reader import Raw, Stretch, read_stretch, reading
from cdc.kafka.security import PLAINTEXT
from stack.ports import HOST, free_port
from tests.support.waiting import wait_until


@pytest.fixture
def topic(kafka: str, source_name: str) -> str:
    with Broker(kafka) as broker:
        broker.create_topics([TopicSpec(source_name, 1)])
    return source_name


def write(kafka: str, topic: str, *keys: bytes | None, transactional: bool = False) -> None:
    settings = {"bootstrap.servers": kafka}
    if transactional:
        settings["transactional.id"] = topic
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for key in keys:
        producer.produce(topic, key=key, value=None if key == b"gone" else b"v", partition=0)
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0


def ended(kafka: str, topic: str, at: int) -> None:
    """Wait until the partition ends there: a transaction's mark is written behind its back."""
    with Broker(kafka) as broker:
        wait_until(lambda: broker.end_offsets([topic])[topic][0] == at, "the transaction's end")


def read(kafka: str, topic: str, begin: int, end: int) -> list[Raw]:
    settings = reading(kafka, PLAINTEXT)
    stretch = Stretch(topic, 0, begin, end)
    return [record for records in read_stretch(settings, stretch) for record in records]


def test_a_stretch_is_what_stands_from_its_begin_up_to_its_end(kafka: str, topic: str) -> None:
    write(kafka, topic, b"0", None, b"gone", b"", *(str(i).encode() for i in range(4, 2_000)))
    assert read(kafka, topic, 0, 4) == [
        (b"0", b"v", 0),
        (None, b"v", 1),
        (b"gone", None, 2),
        (b"", b"v", 3),
    ]
    assert [offset for _, _, offset in read(kafka, topic, 1_000, 2_000)] == list(
        range(1_000, 2_000)
    )
    assert read(kafka, topic, 7, 7) == []


def test_offsets_without_a_record_are_passed_over_at_the_end_too(kafka: str, topic: str) -> None:
    """A transaction's end takes an offset."""
    write(kafka, topic, b"a", b"b", transactional=True)
    ended(kafka, topic, 3)
    write(kafka, topic, b"c")
    assert [key for key, _, _ in read(kafka, topic, 0, 3)] == [b"a", b"b"]
    assert [key for key, _, _ in read(kafka, topic, 0, 4)] == [b"a", b"b", b"c"]
    write(kafka, topic, b"d", transactional=True)
    ended(kafka, topic, 6)
    assert [key for key, _, _ in read(kafka, topic, 3, 6)] == [b"c", b"d"]


def test_what_kafka_does_not_hold_any_more_is_a_fault(kafka: str, topic: str) -> None:
    write(kafka, topic, b"a", b"b", b"c")
    admin = AdminClient({"bootstrap.servers": kafka})
    (done,) = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    done.result(30)
    with pytest.raises(LogError, match=rf"reading {topic}-0 from offset 1 to 3: "):
        read(kafka, topic, 1, 3)
    assert read(kafka, topic, 2, 3) == [(b"c", b"v", 2)]


def test_what_kafka_does_not_hold_yet_is_a_fault(kafka: str, topic: str) -> None:
    write(kafka, topic, b"a")
    with pytest.raises(LogError, match=r"to 2: the partition ends at offset 1$"):
        read(kafka, topic, 0, 2)


def test_a_topic_that_is_not_there_is_a_fault(
    kafka: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client waits for it to be made: as for a broker that says nothing."""
    monkeypatch.setattr("cdc.kafka.range_reader._SILENT_S", 1.0)
    with pytest.raises((RetryableError, LogError), match=rf"reading {topic}\.no-0 from offset 0 "):
        read(kafka, f"{topic}.no", 0, 2)


def test_a_broker_that_says_nothing_is_away(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.kafka.range_reader._SILENT_S", 1.0)
    with pytest.raises(
        (RetryableError, LogError), match=rf"reading {topic}-0 from offset 0 to 2: "
    ):
        read(f"{HOST}:{free_port(set())}", topic, 0, 2)
