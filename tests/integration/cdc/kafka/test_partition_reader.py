"""Partitions of a real Kafka, read on and on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cdc.errors import LogError
from cdc.kafka import partition_reader, range_reader
from cdc.kafka.partition_reader import PartitionReader
from cdc.kafka.security import PLAINTEXT
from tests.support.events.written_topics import Log


@pytest.fixture
def reader(kafka: str) -> Iterator[PartitionReader]:
    made = PartitionReader(kafka)
    yield made
    made.close()


def send(log: Log, partition: int, *values: bytes | None) -> None:
    for value in values:
        log.send(log.topic, partition, b"k", value)


def read(reader: PartitionReader, log: Log, begin: list[int], end: list[int]) -> list[bytes | None]:
    found = reader.read({log.topic: dict(enumerate(begin))}, {log.topic: dict(enumerate(end))})
    assert found is not None
    return [one.value for one in found]


def test_what_was_fetched_ahead_is_read_later(reader: PartitionReader, log: Log) -> None:
    send(log, 0, b"0", b"1", b"2")
    send(log, 1, b"a", None)
    assert read(reader, log, [0, 0], [2, 0]) == [b"0", b"1"]
    assert read(reader, log, [2, 0], [3, 2]) == [b"2", b"a", None]
    assert not reader.has_more({log.topic: {0: 3, 1: 2}}, 0.2)
    send(log, 1, b"b")
    assert reader.has_more({log.topic: {0: 3, 1: 2}}, 60)
    assert read(reader, log, [3, 2], [3, 3]) == [b"b"]


def test_what_there_is_is_read_at_once(
    reader: PartitionReader, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for several records, the client itself waits until it has as many."""
    monkeypatch.setattr(partition_reader, "_POLL_S", 30.0)
    monkeypatch.setattr(range_reader, "_POLL_S", 30.0)
    send(log, 0, b"0", b"1")
    began = time.monotonic()
    assert reader.has_more({log.topic: {0: 0, 1: 0}}, 60)
    assert read(reader, log, [0, 0], [2, 0]) == [b"0", b"1"]
    settings = range_reader.reading(log.bootstrap, PLAINTEXT)
    found = list(range_reader.read_stretch(settings, range_reader.Stretch(log.topic, 0, 0, 2)))
    assert sum(map(len, found)) == 2
    assert time.monotonic() - began < 20


def test_it_goes_back_where_it_is_told(reader: PartitionReader, log: Log) -> None:
    send(log, 0, b"0", b"1", b"2")
    assert read(reader, log, [0, 0], [3, 0]) == [b"0", b"1", b"2"]
    assert read(reader, log, [1, 0], [2, 0]) == [b"1"]
    assert read(reader, log, [2, 0], [3, 0]) == [b"2"]


def test_what_is_too_much_is_not_read(reader: PartitionReader, log: Log) -> None:
    send(log, 0, *[b"x" * 1_000] * 50)
    begin, end = {log.topic: {0: 0, 1: 0}}, {log.topic: {0: 50, 1: 0}}
    assert reader.read(begin, end, 20_000) is None
    found = reader.read(begin, end, 100_000)
    assert found is not None
    assert len(found) == 50


def test_an_offset_that_is_gone_is_named(reader: PartitionReader, log: Log) -> None:
    send(log, 0, b"0", b"1", b"2")
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    (done,) = admin.delete_records([TopicPartition(log.topic, 0, 2)]).values()
    done.result()
    with pytest.raises(LogError, match=f"{log.topic}-0: Kafka no longer holds offset 1"):
        read(reader, log, [1, 0], [3, 0])
    reader.close()
    with pytest.raises(LogError, match="retention"):
        reader.has_more({log.topic: {0: 1}}, 60)


def test_partitions_of_topics_are_counted(reader: PartitionReader, log: Log) -> None:
    assert reader.partitions([log.topic, "none"]) == {log.topic: 2, "none": 0}
