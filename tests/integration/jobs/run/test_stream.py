"""The stream over a real Kafka: what its batches hold, how it ends and goes on."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from cdc.config import Kafka
from cdc.errors import LogError, RetryableError, SinkError
from cdc.kafka.broker import Broker, Offsets
from jobs.run.process import stream_of
from jobs.run.stream.stream import Stream, StreamBatch
from tests.integration.jobs.run.test_large_batch import Files, read_file
from tests.support.events.written_topics import PARTITIONS, Log, row, v1
from tests.support.views.recording_sink import configured
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Applied:
    """Keeps what a stream gives it; raises what it is told to."""

    def __init__(self) -> None:
        self.batches: list[StreamBatch] = []
        self.fault: Exception | None = None
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, batch: StreamBatch) -> None:
        self.begun.set()
        self.gate.wait(60)
        if self.fault is not None:
            raise self.fault
        self.batches.append(batch)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.rows.to_pylist()]

    def ids(self) -> list[int]:
        return sorted(json.loads(row["after"])["id"] for row in self.rows)


@pytest.fixture
def applied() -> Applied:
    return Applied()


@pytest.fixture
def stream(spark: SparkSession, kafka: str, applied: Applied) -> Iterator[Stream]:
    made = Stream(spark, Kafka(bootstrap_servers=kafka), applied, interval_s=0.02)
    yield made
    made.close()


def beginning(*logs: Log) -> Offsets:
    return {log.topic: dict.fromkeys(range(PARTITIONS), 0) for log in logs}


def write(log: Log, *ids: int) -> None:
    log.write(*(v1(100 + id_, 1, row(id_, "x")) for id_ in ids))


def test_batches_follow_on_each_other_and_hold_each_record_once(
    stream: Stream, applied: Applied, log: Log
) -> None:
    other = Log(log.bootstrap, log.source, "other")
    stream.start(beginning(log, other))
    for id_ in range(30):
        write(other if id_ % 3 else log, id_)
    wait_until(lambda: len(applied.rows) == 30, "30 rows")
    assert applied.ids() == list(range(30))
    assert {row["topic"] for row in applied.rows} == {log.topic, other.topic}
    at = beginning(log, other)
    for batch in applied.batches:
        assert batch.begin == at
        at = batch.end
    assert at == stream.reached
    assert stream.error() is None
    assert stream.active


def test_it_goes_on_where_it_was_stopped_with_one_more_topic(
    stream: Stream, applied: Applied, log: Log
) -> None:
    stream.start(beginning(log))
    write(log, 1)
    wait_until(lambda: applied.rows, "a row")
    stream.stop()
    assert not stream.active
    write(log, 2)
    other = Log(log.bootstrap, log.source, "other")
    stream.start({**stream.reached, **beginning(other)})
    write(other, 3)
    wait_until(lambda: len(applied.rows) == 3, "three rows")
    assert applied.ids() == [1, 2, 3]


def test_what_apply_raises_ends_it_and_the_batch_comes_again(
    stream: Stream, applied: Applied, log: Log
) -> None:
    applied.fault = SinkError("the store says no")
    stream.start(beginning(log))
    write(log, 1, 2)
    wait_until(lambda: not stream.active, "the end")
    assert stream.error() is applied.fault
    stream.stop()
    applied.fault = None
    stream.start(stream.reached)
    wait_until(lambda: len(applied.rows) == 2, "two rows")
    assert applied.ids() == [1, 2]


def test_stop_waits_for_the_batch_under_way(stream: Stream, applied: Applied, log: Log) -> None:
    applied.gate.clear()
    stream.start(beginning(log))
    write(log, 1)
    assert applied.begun.wait(60)
    stopping = threading.Thread(target=stream.stop)
    stopping.start()
    applied.gate.set()
    stopping.join(60)
    assert applied.ids() == [1]
    assert sum(stream.reached[log.topic].values()) == 1
    assert stream.error() is None


def test_it_is_not_started_beside_a_batch_that_could_not_be_ended(
    stream: Stream, applied: Applied, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.run.stream.stream._CUT_OFF_S", 0.1)
    applied.gate.clear()
    stream.start(beginning(log))
    write(log, 1)
    assert applied.begun.wait(60)
    stream.stop(limit_s=0.1)
    with pytest.raises(RetryableError, match="last batch has not ended"):
        stream.start(beginning(log))
    applied.gate.set()
    wait_until(lambda: not stream.active, "the batch to end")
    stream.start(stream.reached)
    write(log, 2)
    wait_until(lambda: len(applied.rows) == 2, "two rows")
    assert applied.ids() == [1, 2]


def test_large_batches_are_read_by_tasks(
    spark: SparkSession,
    kafka: str,
    applied: Applied,
    log: Log,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = range(7_000)
    write(log, *ids, *ids)
    stream = Stream(spark, Kafka(bootstrap_servers=kafka), applied)
    stream.start(beginning(log))
    wait_until(lambda: applied.batches, "a batch")
    write(log, 7_000)
    wait_until(lambda: len(applied.batches) == 2, "one more")
    stream.close()
    large, small = (batch.large for batch in applied.batches)
    assert small is None
    assert large is not None
    rows = large.collect()
    assert len(rows) == len(ids)
    assert set(rows.column("records").to_pylist()) == {2}
    monkeypatch.setattr("jobs.run.stream.stream.ROWS_HERE", 3_000)
    pieces = [*applied.batches[0].pieces()]
    assert len(pieces) == 5
    assert pieces[0].begin == large.begin
    assert [piece.end for piece in pieces[:-1]] == [piece.begin for piece in pieces[1:]]
    assert pieces[-1].end == large.end
    assert {key for piece in pieces[:3] for key in piece.rows["key"].to_pylist()} == set(
        rows["key"].to_pylist()
    )
    written = large.write(Files(tmp_path))
    assert sum(written) == len(ids)
    found = pa.concat_tables(map(read_file, tmp_path.iterdir()))
    assert found.sort_by("key").equals(rows.sort_by("key"))


def test_a_batch_has_no_more_records_than_the_configuration_allows(
    spark: SparkSession, applied: Applied, log: Log, tmp_path: Path
) -> None:
    write(log, *range(50))
    config = configured(log, tmp_path)
    apply = config.apply.model_copy(update={"max_offsets_per_trigger": 20})
    stream = stream_of(spark, config.model_copy(update={"apply": apply}), None)(applied)
    stream.start(beginning(log))
    wait_until(lambda: len(applied.rows) == 50, "50 rows")
    stream.close()
    assert applied.ids() == list(range(50))
    assert max(batch.rows.num_rows for batch in applied.batches) <= 20


def test_records_of_many_megabytes_are_read_by_tasks(
    stream: Stream, applied: Applied, log: Log
) -> None:
    log.write(*(v1(100 + id_, 1, row(id_, "x" * 900_000)) for id_ in range(40)))
    stream.start(beginning(log))
    wait_until(lambda: applied.batches, "a batch")
    stream.stop()
    assert applied.ids() == list(range(40))


def test_records_of_a_partition_that_is_new_are_read(
    stream: Stream, applied: Applied, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.run.stream.stream._LOOK_S", 0.2)
    stream.start(beginning(log))
    write(log, 1)
    wait_until(lambda: applied.rows, "a row")
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    (done,) = admin.create_partitions([NewPartitions(log.topic, PARTITIONS + 1)]).values()
    done.result()
    key, value = v1(200, 1, row(2, "x"))
    Log(log.bootstrap, log.source).send(log.topic, PARTITIONS, key, value)
    write(log, 3)
    wait_until(lambda: len(applied.rows) == 3, "three rows")
    assert stream.reached[log.topic][PARTITIONS] == 1


def test_a_topic_that_is_deleted_ends_it_and_is_named(
    stream: Stream, applied: Applied, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.run.stream.stream._LOOK_S", 0.2)
    other = Log(log.bootstrap, log.source, "other")
    stream.start(beginning(log, other))
    write(log, 1)
    wait_until(lambda: applied.rows, "a row")
    with Broker(log.bootstrap) as broker:
        broker.delete_topics([other.topic])
    wait_until(lambda: stream.error() is not None, "the stream to tell of it")
    assert other.topic in str(stream.error())


def test_offsets_that_retention_removed_are_named(
    stream: Stream, applied: Applied, log: Log
) -> None:
    for id_ in range(3):
        key, value = v1(100 + id_, 1, row(id_, "x"))
        log.send(log.topic, 0, key, value)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    (done,) = admin.delete_records([TopicPartition(log.topic, 0, 2)]).values()
    done.result()
    with pytest.raises(LogError, match=f"{log.topic}-0: Kafka no longer holds offset 1.*retention"):
        stream.start({log.topic: {0: 1, 1: 0}})
    with pytest.raises(LogError, match=f"{log.topic}-1 ends at offset 0, before 4.*recreated"):
        stream.start({log.topic: {0: 2, 1: 4}})
    with pytest.raises(LogError, match="has 2 partitions but not 7"):
        stream.start({log.topic: {0: 2, 7: 4}})
    stream.start({log.topic: {0: 2, 1: 0}})
    wait_until(lambda: applied.rows, "a row")
    assert applied.ids() == [2]


def test_kafka_that_does_not_answer_is_told(spark: SparkSession, applied: Applied) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    stream = Stream(spark, Kafka(bootstrap_servers=address), applied)
    with pytest.raises(RetryableError, match="Kafka"):
        stream.start({"t": {0: 0}})
    stream.close()
