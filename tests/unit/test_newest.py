"""The newest records of each key: what may be left out of a batch, and what never is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc.kafka.stretches import Raw, Stretch
from jobs.newest import Newest, divided, newest
from tests.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.unit.test_applying import model_of

MUCH = 1 << 30
VERSIONS = ("a" * 16, "b" * 16, "refused")
TOPIC = "events"


def raw(*records: Record, first: int = 0) -> list[Raw]:
    return [(key, value, offset) for offset, (key, value) in enumerate(records, first)]


def left(records: Sequence[Raw], most_bytes: int = MUCH, at_once: int = 3) -> list[list[Newest]]:
    parts = [list(records[i : i + at_once]) for i in range(0, len(records), at_once)]
    return list(newest(parts, {"refused"}, most_bytes))


def offsets(records: Sequence[Raw]) -> list[int]:
    (found,) = left(records)
    return sorted(one.offset for one in found)


def test_the_highest_position_is_left_wherever_it_stands() -> None:
    records = raw(
        event(20, 1, {"id": 1}),
        event(10, 7, {"id": 1}),
        event(20, 1, {"id": 2}),
        event(20, 2, {"id": 2}),
        snapshot(20, {"id": 1}),
    )
    ((one, other),) = left(records)
    assert (one.offset, one.records) == (0, 3)
    assert (other.offset, other.records) == (3, 2)


def test_of_the_same_change_twice_one_is_left() -> None:
    ((one,),) = left(raw(event(20, 1, {"id": 1}), event(20, 1, {"id": 1})))
    assert (one.offset, one.records) == (1, 2)


def test_a_delete_is_a_change_and_its_tombstone_is_nothing() -> None:
    assert offsets(raw(event(10, 1, {"id": 1}), *delete(11, 1, {"id": 1}))) == [1]


def test_the_newest_truncate_is_left() -> None:
    records = raw(truncate(10, 1), event(10, 2, {"id": 1}), truncate(12, 1), truncate(11, 1))
    assert offsets(records) == [1, 2]


def test_the_oldest_commit_is_that_of_a_streamed_change() -> None:
    def value(record: Record, committed_us: int | None) -> Record:
        document = json.loads(record[1] or b"")
        document["source"]["ts_us"] = committed_us
        return record[0], json.dumps(document).encode()

    records = raw(
        value(snapshot(1, {"id": 1}), 1),
        value(event(2, 1, {"id": 1}), 30),
        value(event(3, 1, {"id": 1}), None),
        value(event(4, 1, {"id": 1}), 20),
        value(event(5, 1, {"id": 1}), 25),
        value(snapshot(1, {"id": 2}), 7),
    )
    ((one, read),) = left(records)
    assert (one.oldest_us, read.oldest_us) == (20, None)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"op":"u"}',
        b'{"op":null,"source":{"commit_lsn":9,"ordinal":1,"schema_id":"a"}}',
        b'{"op":"u","source":{"commit_lsn":"9","ordinal":1,"schema_id":"a"}}',
        b'{"op":"u","source":{"commit_lsn":9,"ordinal":null,"schema_id":"a"}}',
        b'{"op":"u","source":{"commit_lsn":9,"ordinal":1,"schema_id":"a"}',
        b'{"op":"\xff","source":{"commit_lsn":9,"ordinal":1,"schema_id":"a"}}',
    ],
)
def test_what_is_no_event_is_never_overtaken(value: bytes) -> None:
    (key, _) = newer = event(10, 1, {"id": 1})
    assert offsets(raw((key, value), newer, (key, value))) == [0, 1, 2]


def test_an_event_of_a_refused_version_is_never_overtaken() -> None:
    records = raw(
        event(10, 1, {"id": 1}, schema_id="refused"),
        event(11, 1, {"id": 1}, schema_id="refused"),
        event(12, 1, {"id": 1}),
    )
    assert offsets(records) == [0, 1, 2]


def test_the_same_key_of_two_versions_may_be_of_two_rows() -> None:
    records = raw(
        event(10, 1, {"id": 1}, schema_id=VERSIONS[0]),
        event(11, 1, {"id": 1}, schema_id=VERSIONS[1]),
        event(12, 1, {"id": 1}, schema_id=VERSIONS[1]),
    )
    assert offsets(records) == [0, 2]


def test_what_is_held_is_handed_over_when_it_is_much() -> None:
    body = "x" * 10_000
    records = raw(*(event(i, 1, {"id": i % 7, "body": body}) for i in range(1, 101)))
    parts = left(records, 50_000)
    assert len(parts) > 10
    assert max(sum(one.bytes for one in part) for part in parts) < 50_000 + 4 * 11_000
    assert sum(one.records for part in parts for one in part) == 100


class Change(NamedTuple):
    """What a random record is made of."""

    id: int
    lsn: int
    ordinal: int
    op: str
    version: str


changes = st.builds(
    Change,
    st.integers(0, 3),
    st.integers(1, 6),
    st.integers(0, 3),
    st.sampled_from("crudt"),
    st.sampled_from(VERSIONS),
)


def record(change: Change) -> Record:
    id_, lsn, ordinal, op, version = change
    if op == "t":
        return truncate(lsn, ordinal, version)
    return event(lsn, ordinal, {"id": id_}, op, schema_id=version)


@given(st.lists(changes, max_size=30), st.integers(1, 4), st.sampled_from([1, 2_000, MUCH]))
def test_of_any_records_the_newest_of_each_key_and_version_is_left_and_all_are_counted(
    changes: list[Change], at_once: int, most_bytes: int
) -> None:
    records = raw(*map(record, changes))
    found = [one for part in left(records, most_bytes, at_once) for one in part]
    assert sum(one.records for one in found) == len(records)

    def newest_positions(those: list[tuple[Any, str, tuple[int, int]]]) -> dict[Any, Any]:
        positions = dict[Any, Any]()
        for key, version, position in sorted(those, key=lambda one: one[2]):
            positions[key, version] = position
        return positions

    def told(key: bytes | None, value: bytes) -> tuple[Any, str, tuple[int, int]]:
        source = json.loads(value)["source"]
        return key, source["schema_id"], (source["commit_lsn"], source["ordinal"])

    whole = [told(key, value or b"") for key, value, _ in records]
    kept = [told(one.key, one.value) for one in found]
    assert newest_positions(kept) == newest_positions(whole)
    refused = [one for one in whole if one[1] == "refused"]
    assert sorted(map(str, (one for one in kept if one[1] == "refused"))) == sorted(
        map(str, refused)
    )
    for one in found:
        assert records[one.offset][:2] == (one.key, one.value)


def test_stretches_are_about_as_long_as_each_other() -> None:
    end = {TOPIC: {0: 400_000, 1: 100_000, 2: 7}, "other": {0: 50}}
    begin = {TOPIC: {0: 0, 1: 0, 2: 7}}
    assert divided(begin, end, 4) == [
        Stretch(TOPIC, 0, 0, 133_333),
        Stretch(TOPIC, 0, 133_333, 266_666),
        Stretch(TOPIC, 0, 266_666, 400_000),
        Stretch(TOPIC, 1, 0, 100_000),
        Stretch("other", 0, 0, 50),
    ]


def test_few_records_are_not_divided() -> None:
    assert divided({TOPIC: {0: 10}}, {TOPIC: {0: 40_010}}, 16) == [Stretch(TOPIC, 0, 10, 40_010)]


def test_two_partitions_of_nearly_one_length_are_two_stretches() -> None:
    stretches = divided({}, {TOPIC: {0: 500_900, 1: 499_100}}, 2)
    assert [one.end - one.begin for one in stretches] == [500_900, 499_100]


def test_they_are_sorted_once(spark: SparkSession) -> None:
    """Not where they were read, too: they are few of a key."""
    model = model_of("select id, body from t")
    records = kafka_frame(spark, [event(1, 1, {"id": 1, "body": "", "n": "1"})])
    rows = model.newest_rows(records.selectExpr("*", "1L as records", "1L as oldest_us"))
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert (plan.count("Exchange "), len(re.findall(r"\bSort \[", plan))) == (1, 1), plan
