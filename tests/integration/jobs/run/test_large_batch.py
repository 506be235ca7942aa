"""A large batch of a real Kafka: what its tasks read, and what they say of what is not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cdc.config import Kafka
from cdc.errors import LogError
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM
from cdc.events.readers.columns import ColumnKind
from cdc.kafka.broker import Broker
from cdc.kafka.event_reader import FormReader
from jobs.batch.large_batch import LargeBatch
from tests.support.events.events import event
from tests.support.events.written_topics import V1, Log, row, v1

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """A file for each task."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, task: int, batches: Iterator[pa.RecordBatch]) -> int:
        table = pa.Table.from_batches(batches)
        with pa.ipc.new_file(str(self._directory / str(task)), table.schema) as file:
            file.write_table(table)
        return len(table)


def read_file(path: Path) -> pa.Table:
    return pa.ipc.open_file(str(path)).read_all()


def test_tasks_tell_what_kafka_does_not_hold(spark: SparkSession, kafka: str, log: Log) -> None:
    for id_ in range(3):
        key, value = v1(100 + id_, 1, row(id_, "x"))
        log.send(log.topic, 0, key, value)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    (done,) = admin.delete_records([TopicPartition(log.topic, 0, 2)]).values()
    done.result()
    large = LargeBatch(spark, Kafka(bootstrap_servers=kafka), {}, {log.topic: {0: 3}})
    with pytest.raises(LogError, match=f"{log.topic}-0 from offset 0 to 3.*retention"):
        large.collect()


def test_tasks_tell_where_a_snapshot_read_what_updates_leave_out(
    spark: SparkSession, kafka: str, log: Log, tmp_path: Path
) -> None:
    for id_ in range(40):
        lacking = row(id_, PLACEHOLDER)
        update = event(100, 1, lacking, "u", schema_id=V1.schema_id(), unchanged=["body"])
        log.write(v1(50, 0, row(id_, "of 50"), "r"), *[v1(60, 1, row(id_, "of 60"))] * (id_ % 2))
        log.write(update)
    with Broker(kafka) as broker:
        large = LargeBatch(
            spark, Kafka(bootstrap_servers=kafka), {}, broker.end_offsets([log.topic])
        )
    large.write(Files(tmp_path))
    for table in (large.collect(), pa.concat_tables(map(read_file, tmp_path.iterdir()))):
        found = {
            one["key"]: (json.loads(one["after"])["body"], one["unchanged"], one["read_lsn"])
            for one in table.to_pylist()
        }
        assert found == {
            f'{{"id":{id_}}}': ("of 60", None, None) if id_ % 2 else ("of 50", ["body"], 50)
            for id_ in range(40)
        }


def test_tasks_read_events_in_another_form(spark: SparkSession, kafka: str, log: Log) -> None:
    reader = FormReader(
        DEBEZIUM, lambda: {V1.schema_id(): {"id": ColumnKind("int4"), "body": ColumnKind("text")}}
    )
    for id_ in range(30):
        key, value = v1(100 + id_, 1, row(id_, f"of {id_}"))
        wrapped = (b'{"schema":{},"payload":' + (one or b"null") + b"}" for one in (key, value))
        log.send(log.topic, 0, *wrapped)
    large = LargeBatch(spark, Kafka(bootstrap_servers=kafka), {}, {log.topic: {0: 30}}, reader)
    found = {one["key"]: json.loads(one["after"])["body"] for one in large.collect().to_pylist()}
    assert found == {f'{{"id":{id_}}}': f"of {id_}" for id_ in range(30)}
