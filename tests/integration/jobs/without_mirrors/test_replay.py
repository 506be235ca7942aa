"""A view's stream begun again at an earlier place, by the real Kafka and Spark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.errors import LogError, UsageError
from cdc.events.codes import PLACEHOLDER
from cdc.kafka.broker import Broker
from cdc.topics import view_group
from jobs.generations.view_state import ViewState, generation_id
from jobs.spark.checkpoint import committed_batch
from jobs.without_mirrors.dead_letters.topic import waiting
from jobs.without_mirrors.replay.replay import Replayed, replay
from jobs.without_mirrors.replay.start_position import parse_place, places
from jobs.without_mirrors.views import apply_views
from tests.integration.headwater.test_apply_ended import Running
from tests.support.events.events import delete
from tests.support.events.written_topics import V1, Log, row, v1
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(kafka: str) -> Iterator[Broker]:
    with Broker(kafka) as broker:
        yield broker


def replayed(running: Running, broker: Broker, place: str) -> Replayed:
    return replay(running.config, broker, "v", place, parse_place(place))


def behind(running: Running, broker: Broker) -> int:
    topic = running.log.topic
    at = broker.committed(view_group("v"), [topic]).get(topic, {})
    return sum(end - at.get(p, 0) for p, end in broker.end_offsets([topic])[topic].items())


def caught_up(running: Running, broker: Broker) -> None:
    wait_until(lambda: behind(running, broker) == 0, "the view to have applied all")


def test_changes_come_again_beside_a_running_apply(
    spark: SparkSession, kafka: str, source_name: str, tmp_path: Path, broker: Broker
) -> None:
    running = Running(spark, Log(kafka, source_name), tmp_path, most=1)
    try:
        running.log.write(
            v1(2, 1, row(2, "b")),
            v1(3, 1, row(2, PLACEHOLDER), "u"),
            *delete(4, 1, row(2, None), V1.schema_id()),
        )
        running.log.write(v1(5, 1, row(3, "c")))
        running.wait_for(3)
        caught_up(running, broker)
        running.sink.rows.clear()  # set back, its tombstones too
        records = sum(broker.end_offsets([running.log.topic])[running.log.topic].values())
        assert replayed(running, broker, "0/1").records == records
        running.wait_for(3)
        caught_up(running, broker)
        assert sorted(running.sink.values()) == [1, 3]

        running.sink.rows.pop((2,))  # and it forgets the delete
        replayed(running, broker, "0/3")  # an update of what is not there any more comes first
        caught_up(running, broker)
        assert sorted(running.sink.values()) == [1, 3]
    finally:
        running.end()
    assert running.failed == {}
    assert waiting(running.config, broker, "v").parked == 0
    again_without_apply(running, broker)


def again_without_apply(running: Running, broker: Broker) -> None:
    """The next start begins there, whatever a kill had left of a batch."""
    offsets, last = running.checkpoint / "offsets", committed_batch(running.checkpoint)
    shutil.copy(offsets / str(last), offsets / str((last or 0) + 1))  # planned and not committed
    running.sink.rows.clear()
    done = replayed(running, broker, "beginning")
    assert behind(running, broker) == done.records
    state = ViewState(running.checkpoint.parent, generation_id(running.checkpoint.parent) or "")
    found = state.replay()
    assert found is not None
    assert found.goes_on(done.starts)
    assert not found.goes_on(done.until)
    with pytest.raises(UsageError, match="nothing after that position"):
        replayed(running, broker, "beginning")

    sinks = {"v": running.sink}
    failed = apply_views(running.spark, running.config, ["v"], threading.Event(), True, sinks)
    assert failed == {}
    assert behind(running, broker) == 0
    assert sorted(running.sink.values()) == [1, 3]


def test_places_are_found_in_the_topics(kafka: str, source_name: str, broker: Broker) -> None:
    log = Log(kafka, source_name)
    for lsn in range(10, 20):
        log.send(log.topic, 0, *v1(lsn, 1, row(lsn, "x")))
    (record,) = broker.read(log.topic, 0, 4, 5)

    def at(place: str) -> dict[int, int]:
        return places(broker, [log.topic], parse_place(place), {log.topic: {0: 1, 1: 0}})[log.topic]

    assert at("beginning") == {0: 1, 1: 0}  # the view's own stream begins there
    assert at("0/D") == {0: 3, 1: 0}
    assert at("0/63") == {0: 10, 1: 0}
    assert at("7") == {0: 7, 1: 7}
    assert at(f"{log.topic}-0-5") == {0: 5}
    assert at("2099-01-01") == {0: 10, 1: 0}
    assert at("2000-01-01T00:00Z") == {0: 1, 1: 0}
    assert record.timestamp_ms > 0
    with pytest.raises(UsageError, match="does not read other-0"):
        at("other-0-5")


def test_what_retention_removed_is_told(kafka: str, source_name: str, broker: Broker) -> None:
    from kafka import KafkaAdminClient
    from kafka.structs import TopicPartition

    log = Log(kafka, source_name)
    for lsn in range(10, 20):
        log.send(log.topic, 0, *v1(lsn, 1, row(lsn, "x")))
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    try:
        admin.delete_records({TopicPartition(log.topic, 0): 5})
    finally:
        admin.close()
    for place in ("0/9", "4", "2000-01-01", f"{log.topic}-0-1"):
        with pytest.raises(
            LogError, match=r"begins at offset 5, .*, LSN 0/F\. Use --from beginning"
        ):
            places(broker, [log.topic], parse_place(place), {})
    assert places(broker, [log.topic], parse_place("0/11"), {})[log.topic][0] == 7
    assert places(broker, [log.topic], parse_place("beginning"), {})[log.topic][0] == 5
