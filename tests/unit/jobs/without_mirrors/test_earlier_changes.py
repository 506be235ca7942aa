"""What a topic has before batches with late rows of snapshots: read little more than once."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from jobs.without_mirrors.earlier_changes import RESTS_S, EarlierChanges
from jobs.without_mirrors.late_snapshot_values import with_earlier
from tests.support.events.events import Record, delete, event, kafka_frame, snapshot


class Topic:
    """One partition, and how many records were read of it."""

    def __init__(self, spark: SparkSession, records: list[Record]) -> None:
        self._spark, self.records, self.read = spark, records, 0

    def between(self, begin: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        first, last = begin.get(0, 0), end.get(0, 0)
        self.read += last - first
        return kafka_frame(self._spark, self.records[first:last], first)


class Time:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def offsets(changes: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in changes.collect())


def test_each_record_is_read_a_few_times_however_many_batches_ask(spark: SparkSession) -> None:
    topic = Topic(spark, [snapshot(10, {"id": i}) for i in range(960)])
    for place in range(9, 960, 10):
        topic.records[place] = event(20 + place, 1, {"id": place}, "u")
    earlier = EarlierChanges(topic.between)
    batches = range(100, 961, 20)
    for at in batches:
        found = earlier.before({0: at})
        assert earlier.before({0: at}).schema == found.schema  # a batch is tried again
    assert offsets(found) == list(range(9, 960, 10))
    assert topic.read <= 960 * math.log2(len(batches)), "before: half of it each time"
    earlier.release()


def test_rows_of_snapshots_and_tombstones_are_left_out_and_nothing_else(
    spark: SparkSession,
) -> None:
    of_table, read = event(30, 1, {"id": 1, "op": "r"}), snapshot(10, {"id": 1, "op": "u"})
    said = event(40, 1, {"id": 1, "body": '{"op":"r"}'}, "u")
    topic = Topic(spark, [read, of_table, said, *delete(50, 1, {"id": 1})])
    earlier = EarlierChanges(topic.between)
    assert offsets(earlier.before({0: 5})) == [1, 2, 3]
    assert offsets(earlier.before({0: 2})) == [1], "a checkpoint that was set back"
    assert offsets(earlier.before({})) == [], "the first batch"


def test_what_is_kept_is_released_when_nobody_asks_for_it(spark: SparkSession) -> None:
    clock, topic = Time(), Topic(spark, [event(30, 1, {"id": 1})])
    earlier = EarlierChanges(topic.between, clock)
    held = earlier.before({0: 1})
    assert held.storageLevel.useDisk
    assert not held.storageLevel.useMemory
    clock.now_s += RESTS_S - 1
    earlier.rest()
    assert held.storageLevel.useDisk
    clock.now_s += 1
    earlier.rest()
    assert not held.storageLevel.useDisk
    assert offsets(earlier.before({0: 1})) == [0]


def test_a_key_is_the_same_under_new_names_of_its_columns(spark: SparkSession) -> None:
    old = [event(20, i, {"id": i, "part": "a"}, key=("id", "part")) for i in (1, 2)]
    new = event(90, 1, {"nr": 1, "of": "a"}, "u", key=("nr", "of"))
    batch, before = kafka_frame(spark, [new], 2), kafka_frame(spark, old)
    assert offsets(with_earlier(batch, before)) == [0, 2]
