"""Large batches, whose tasks read the topic themselves, on a real Kafka: they give what the others
give, and leave to them what they cannot tell."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from cdc.config import Kafka
from cdc.errors import LogError
from cdc.kafka.broker import Broker
from cdc.kafka.stretches import reading
from jobs.applying import Model, evaluate, evaluate_newest, released
from jobs.fold import EVENT
from jobs.loading import read_topics
from jobs.newest import newest_records
from jobs.schema import PLACEHOLDER
from jobs.sinks import COMMIT_LSN, ORDINAL
from jobs.versions import read_versions
from stack.process import kill
from tests.events import Record, delete, snapshot, truncate
from tests.parkings import applied, lacking, parked
from tests.workers import python_workers
from tests.written import PARTITIONS, V1, V2, Log, row, v1, v2
from views.definition import parse_view
from views.resolve import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.bootstraps import Setting

SQL = "select id, body, n + 1 as more from t where coalesce(n, 0) < 90"


@pytest.fixture
def log(kafka: str, source_name: str) -> Log:
    written = Log(kafka, source_name)
    written.describe(V1)
    written.describe(V2)
    return written


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every batch is a large one; a number for each that was read by its tasks."""
    found = list[int]()

    def counted(*arguments: Any) -> DataFrame:
        found.append(len(found))
        return newest_records(*arguments)

    monkeypatch.setattr("jobs.offsets.FEW_RECORDS", 0)
    monkeypatch.setattr("jobs.offsets.MANY_RECORDS", 1)
    monkeypatch.setattr("jobs.by_tasks.newest_records", counted)
    return found


def changes(chance: random.Random, count: int, gaps: bool) -> list[Record]:
    """Of few keys, at random positions, each once; now and then from a snapshot, a TRUNCATE, a
    delete with its tombstone, or of an older version; where there may be ``gaps``, with a value
    left out."""
    places = chance.sample([(lsn, n) for lsn in range(1, count) for n in range(1, 4)], count)
    made: list[Record] = []
    for lsn, ordinal in places:
        id_, body = chance.randrange(12), chance.choice(["a", "b", "\u00df\n", None])
        values = row(id_, body, n=chance.randrange(100))
        kind = chance.random()
        if kind < 0.05:
            made.append(truncate(lsn, ordinal, V2.schema_id()))
        elif kind < 0.15:
            made.append(snapshot(lsn, values, V2.schema_id()))
        elif kind < 0.3:
            made.extend(delete(lsn, ordinal, row(id_, None, n=None), V2.schema_id()))
        elif kind < 0.4:
            made.append(v1(lsn, ordinal, row(id_, body)))
        elif kind < 0.5 and gaps:
            made.append(v2(lsn, ordinal, {**values, "body": PLACEHOLDER}, "u"))
        else:
            made.append(v2(lsn, ordinal, values, "u"))
    return made


def rows_of(held: DataFrame) -> list[Any]:
    rows = [row.asDict(recursive=True) for row in held.collect()]
    return sorted(rows, key=lambda row: (row[COMMIT_LSN], row[ORDINAL], row["id"] or 0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most_bytes", [256 << 20, 4_000], ids=["together", "in_parts"])
def test_tasks_that_read_the_topic_find_what_spark_finds(
    spark: SparkSession, log: Log, seed: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a key stands in both partitions, as when there once were fewer."""
    monkeypatch.setattr("jobs.newest._HELD_BYTES", most_bytes)
    chance = random.Random(seed)
    for key, value in changes(chance, 120, gaps=seed % 2 == 1):
        log.send(log.topic, chance.randrange(PARTITIONS), key, value)
    with Broker(log.bootstrap) as broker:
        versions = read_versions(broker, log.source, "public", "t")
        end = broker.end_offsets([log.topic])
    definition = parse_view("v", "s", ("id",), SQL)
    model = Model(resolve(definition, versions[V2.schema_id()]), versions)
    kafka, begin = Kafka(bootstrap_servers=log.bootstrap), {log.topic: {0: 5, 1: 0}}
    records = read_topics(spark, kafka, begin, end)
    newest = newest_records(spark, kafka, begin, end, ())
    assert newest.count() < records.where("value is not null").count()
    by_spark, counted = evaluate(model, records)
    with released(by_spark):
        wanted = rows_of(by_spark)
    by_tasks, told = evaluate_newest(model, newest, records)
    with released(by_tasks):
        assert rows_of(by_tasks) == wanted
    assert told == counted
    assert sum(row[EVENT]["records"] for row in wanted) == counted.records


def test_a_large_batch_is_applied_without_what_is_overtaken_in_it(
    cached: Setting, many: list[int]
) -> None:
    log = cached.table.log
    with capture_logs() as said:
        log.write(v1(1, 1, row(1, "a")), v1(1, 2, row(2, "b")), v1(2, 1, row(1, "c"), "u"))
        assert applied(cached) == {}
        log.write(v1(3, 1, row(1, "filled"), "u"), v1(4, 1, row(1, PLACEHOLDER), "u"))
        log.write(*delete(5, 1, row(2, None), V1.schema_id()), v1(6, 1, row(3, "new")))
        assert applied(cached) == {}
    assert cached.shown() == {1: "filled", 3: "new"}
    assert len(many) == 2
    assert not [line for line in said if line["event"] == "batch_read_again"]


def test_poison_in_a_large_batch_is_parked_and_the_rest_flows(
    cached: Setting, many: list[int]
) -> None:
    """What is no event; then, behind an event whose value nobody has, all that its key has."""
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), (b'{"id":9}', b"not ours"), v1(1, 2, row(2, "b")))
    assert applied(cached) == {}
    assert cached.shown() == {1: "a", 2: "b"}
    assert list(parked(cached).values()) == [1]
    log.write(v1(2, 1, row(1, "c"), "u"), lacking(3, 7), v1(4, 1, row(7, "later"), "u"))
    assert applied(cached) == {}
    assert cached.shown() == {1: "c", 2: "b", 7: "later"}
    assert len(many) >= 1


def test_a_version_that_is_described_meanwhile_is_learned_by_a_large_batch(
    cached: Setting, many: list[int]
) -> None:
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")))
    assert applied(cached) == {}
    log.describe(V2)
    log.write(v2(2, 1, row(1, "b", n=1), "u"), v2(3, 1, row(2, "c", n=2)))
    assert applied(cached) == {}
    assert cached.shown() == {1: "b", 2: "c"}
    assert len(many) >= 2


def test_where_tasks_cannot_read_spark_does(
    cached: Setting, many: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here for want of a host; what is wrong is told, and nothing is lost."""

    def elsewhere(_bootstrap: str, security: Any) -> Any:
        return {**reading("nowhere.invalid:1", security), "socket.timeout.ms": 1_000}

    monkeypatch.setattr("jobs.newest.reading", elsewhere)
    log = cached.table.log
    log.write(v1(1, 1, row(1, "a")), v1(2, 1, row(1, "b"), "u"))
    with capture_logs() as said:
        assert applied(cached) == {}
    assert cached.shown() == {1: "b"}
    (line,) = [line for line in said if line["event"] == "batch_read_again"]
    assert line["log_level"] == "warning"
    assert many


def test_a_batch_whose_tasks_are_killed_as_they_read_is_repeated(
    cached: Setting, many: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for a broker that accepts them and says nothing, until they are killed."""
    spark, asked, killed = cached.spark, list[str](), list[int]()
    silent = socket.create_server(("127.0.0.1", 0))
    silent.settimeout(60)

    def at_first_silent(bootstrap: str, security: Any) -> Any:
        asked.append(bootstrap)
        first = f"127.0.0.1:{silent.getsockname()[1]}"
        return reading(first if len(asked) == 1 else bootstrap, security)

    def kill_those_who_read() -> None:
        with silent.accept()[0]:  # one of them reads
            for worker in python_workers(spark):
                kill(worker)
                killed.append(worker.pid)

    monkeypatch.setattr("jobs.newest.reading", at_first_silent)
    cached.table.log.write(v1(1, 1, row(1, "a")), v1(2, 1, row(1, "b"), "u"), v1(2, 2, row(2, "c")))
    other = threading.Thread(target=kill_those_who_read)
    other.start()
    with capture_logs() as said, closing(silent):
        assert applied(cached) == {}
        other.join()
    assert killed
    assert cached.shown() == {1: "b", 2: "c"}
    (line,) = [line for line in said if line["event"] == "view_interrupted"]
    assert "a process that executes Spark's tasks ended" in str(line)
    assert len(many) > 1


def test_a_batch_that_is_cancelled_is_not_begun_again(
    cached: Setting, many: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its view is stopped: by then somebody else may keep it."""
    begun = list[int]()

    def cancelled(_model: Model, newest: DataFrame, _records: DataFrame) -> None:
        context, ended = newest.sparkSession.sparkContext, threading.Event()

        def cancel() -> None:
            while not ended.wait(0.05):  # the job may not have begun
                context.cancelAllJobs()

        other = threading.Thread(target=cancel)
        other.start()
        try:
            newest.sparkSession.range(1 << 50).selectExpr("sum(hash(id))").collect()
        finally:
            ended.set()
            other.join()

    monkeypatch.setattr("jobs.folded.evaluate_newest", cancelled)
    monkeypatch.setattr("jobs.folded.evaluate", lambda *_: begun.append(1))
    cached.table.log.write(v1(1, 1, row(1, "a")))
    with capture_logs() as said:
        assert applied(cached)
    assert many
    assert not begun
    assert not [line for line in said if line["event"] == "batch_read_again"]


def test_what_kafka_lost_stops_the_view_in_spark_s_words(cached: Setting, many: list[int]) -> None:
    log = cached.table.log
    log.write(*(v1(1, n, row(n, "a")) for n in range(1, 20)))
    assert applied(cached) == {}
    log.write(*(v1(2, n, row(n, "b"), "u") for n in range(1, 20)))
    ends = cached.broker.end_offsets([log.topic])[log.topic]
    lost = [TopicPartition(log.topic, partition, end) for partition, end in ends.items()]
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for done in admin.delete_records(lost).values():
        done.result(30)
    log.write(*(v1(3, n, row(n, "c"), "u") for n in range(1, 20)))
    (error,) = applied(cached).values()
    assert isinstance(error, LogError)
    assert "Kafka no longer holds what the checkpoint reads next" in str(error)
    assert cached.shown() == dict.fromkeys(range(1, 20), "a")
    assert many
