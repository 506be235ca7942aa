"""Every change of a stretch: none is folded, and what an update left out is what was before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Stretch
from jobs.batch.history_changes import EveryChange, of_records
from jobs.batch.task_fold import TooLargeError
from jobs.batch.task_parts import Part
from tests.support.events.events import Record, delete, event, snapshot, truncate


def read(*records: Record, topic: str = "t") -> list[dict[str, Any]]:
    fetched = [FetchedRecord(topic, 0, at, key, value) for at, (key, value) in enumerate(records)]
    return [row for table in of_records(fetched, {"t"}) for row in table.to_pylist()]


def put(lsn: int, body: str, kept: bool = False) -> Record:
    return event(lsn, 1, {"id": 1, "body": body}, "u", unchanged=["body"] if kept else None)


def test_each_change_is_there_in_the_order_of_positions() -> None:
    rows = read(put(20, "b"), *delete(30, 1, {"id": 1}), truncate(40, 1), put(10, "a"))
    assert [(row["commit_lsn"], row["op"]) for row in rows] == [
        (10, "u"), (20, "u"), (30, "d"), (40, "t"),
    ]  # fmt: skip
    assert [row["offset"] for row in rows] == [4, 0, 1, 3]
    assert rows[2]["before"] == '{"id":1}'


def test_what_was_left_out_is_what_the_changes_before_it_had() -> None:
    rows = read(put(10, "a"), put(20, "?", True), put(30, "?", True))
    assert [json.loads(row["after"])["body"] for row in rows] == ["a", "a", "a"]
    assert [row["unchanged"] for row in rows] == [None, None, None]


def test_what_only_a_row_of_a_snapshot_has_says_where_it_was_read() -> None:
    read_at = snapshot(10, {"id": 1, "body": "a"})
    rows = read(read_at, put(20, "?", True), put(30, "?", True), put(40, "b"), put(50, "?", True))
    assert [json.loads(row["after"])["body"] for row in rows] == ["a", "a", "a", "b", "b"]
    assert [row["unchanged"] for row in rows] == [None, ["body"], ["body"], None, None]
    assert [row["read_lsn"] for row in rows] == [None, 10, 10, None, None]


def test_behind_a_delete_nothing_is_known() -> None:
    rows = read(put(10, "a"), *delete(20, 1, {"id": 1}), put(30, "?", True))
    assert rows[-1]["unchanged"] == ["body"]


def test_the_change_before_it_of_another_version_is_not_read_by_its_names() -> None:
    updated = {"id": 1, "body": "?", "n": 1}
    other = event(20, 1, updated, "u", schema_id="1" * 16, unchanged=["body"])
    rows = read(put(10, "a"), other, put(30, "?", True))
    assert [row["unchanged"] for row in rows] == [None, ["body"], ["body"]]


def test_other_topics_and_what_is_no_event_are_left_out() -> None:
    assert read(put(10, "a"), topic="other") == []
    assert read((b"1", b"no event"), (b"1", b"\xff"), (b'{"id":1}', None)) == []


def test_what_is_too_large_is_told_and_halves_have_all_of_it() -> None:
    records = [
        (json.dumps({"id": at}).encode(), event(10 + at, 1, {"id": at}, "c")[1], at)
        for at in range(20)
    ]
    part = Part(Stretch("t", 0, 0, 20))
    with pytest.raises(TooLargeError):
        EveryChange(part, 5_000).add(records)
    found = []
    for half in part.halves():
        every = EveryChange(half, 1 << 20)
        every.add(records)
        found += every.table().column("offset").to_pylist()
    assert sorted(found) == list(range(20))
