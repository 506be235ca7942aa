"""A large batch: how it is divided, and how a task folds its part, without Spark and Kafka."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from cdc.events.codes import PLACEHOLDER
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Stretch
from jobs.batch.task_fold import TaskFold, TooLargeError, batches, fold_part
from jobs.batch.task_parts import Part, divided
from tests.support.events.events import Record, event, snapshot
from tests.support.events.fold_model import comparable, fetched, in_order, model
from tests.support.events.random_batches import random_events

WHOLE = Part(Stretch("s.public.t", 0, 0, 1 << 40))


def folded(records: list[FetchedRecord], part: Part = WHOLE) -> list[dict[str, Any]]:
    raw = [(one.key, one.value, one.offset) for one in records]
    fold = fold_part(part, 1 << 30, lambda: (raw[at : at + 7] for at in range(0, len(raw), 7)))
    return [row for batch in batches(part, fold.rows()) for row in batch.to_pylist()]


def test_random_parts_are_folded_as_the_reference_folds_them() -> None:
    for seed in range(300):
        random = Random(seed)
        records = fetched(random_events(random, random.randrange(1, 60)), "s.public.t")
        rows = comparable(folded(records))
        assert in_order(rows) == in_order(model(records)), f"seed {seed}"


def put(lsn: int, version: str, id_: int = 1, kept: bool = False, key: str = "id") -> Record:
    row = {key: id_, "body": PLACEHOLDER if kept else f"of {lsn}"}
    unchanged = ["body"] if kept else None
    return event(lsn, 1, row, "u", (key,), schema_id=version, unchanged=unchanged)


def left(*records: Record) -> list[tuple[int, str, list[str] | None, int]]:
    rows = folded(fetched(records, "s.public.t"))
    found = [
        (row["commit_lsn"], json.loads(row["after"])["body"], row["unchanged"], row["records"])
        for row in rows
    ]
    return sorted(found)


def test_a_value_is_not_taken_from_before_another_version_that_changed_it() -> None:
    """A column is added and dropped: the version is the first one again."""
    found = left(put(1, "a"), put(2, "b"), put(3, "a", kept=True), put(4, "a", kept=True))
    assert found == [
        (1, "of 1", None, 1), (2, "of 2", None, 1), (4, PLACEHOLDER, ["body"], 2),
    ]  # fmt: skip


def test_a_row_that_another_version_updates_is_there_before_it() -> None:
    """Although the first version's last change of it, which stands behind, has all values."""
    found = left(put(1, "a"), put(2, "b", kept=True), put(3, "a"))
    assert found == [(1, "of 1", None, 1), (2, PLACEHOLDER, ["body"], 1), (3, "of 3", None, 1)]


def test_events_whose_keys_are_no_text_are_of_no_period() -> None:
    values = [put(1, "a")[1], put(2, "b")[1]]
    rows = folded(fetched([(b"\xff", value) for value in values], "s.public.t"))
    assert [(row["op"], row["records"]) for row in rows] == [(None, 1)] * 2


def test_another_version_may_have_another_name_of_the_key() -> None:
    found = left(put(1, "a"), put(2, "b", key="number"), put(3, "a", kept=True))
    assert found[-1] == (3, PLACEHOLDER, ["body"], 1)


def test_a_value_that_only_a_row_of_a_snapshot_has_says_where_it_was_read() -> None:
    """The row may stand behind changes that earlier batches had, and that are newer than it."""
    read = snapshot(50, {"id": 1, "body": "of 50"}, "a")
    updates = [put(100 + n, "a", kept=True) for n in range(40)]
    for records in ([read, *updates], [*updates, read]):
        (row,) = folded(fetched(records, "s.public.t"))
        assert json.loads(row["after"])["body"] == "of 50"
        assert (row["unchanged"], row["read_lsn"], row["records"]) == (["body"], 50, 41)
    (row,) = folded(fetched([read, put(60, "a"), *updates], "s.public.t"))
    assert (row["unchanged"], row["read_lsn"]) == (None, None)
    (row,) = folded(fetched([read], "s.public.t"))
    assert (row["unchanged"], row["read_lsn"]) == (None, None)


def test_halves_of_a_part_have_each_key_once() -> None:
    records = fetched(random_events(Random(7), 400), "s.public.t")
    halves = [one for half in WHOLE.halves() for one in half.halves()]
    rows = comparable(row for half in halves for row in folded(records, half))
    assert in_order(_keyed(rows)) == in_order(_keyed(model(records)))


def _keyed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without TRUNCATE, of which each part may have one."""
    return [row for row in rows if row["op"] != "t"]


def test_a_key_with_many_partial_updates_holds_few_images() -> None:
    first = event(1, 1, {"id": 1, "body": "x", "n": 0})
    updates = [
        event(2 + n, 1, {"id": 1, "body": PLACEHOLDER, "n": n}, "u", unchanged=["body"])
        for n in range(100)
    ]
    fold = TaskFold(WHOLE, 1 << 30)
    fold.add([(*record, at) for at, record in enumerate([first, *updates])])
    (last,) = fold.rows()
    assert len(last.earlier) < 20
    (row,) = (row for batch in batches(WHOLE, [last]) for row in batch.to_pylist())
    assert json.loads(row["after"]) == {"id": 1, "body": "x", "n": 99}
    assert (row["unchanged"], row["records"]) == (None, 101)


def test_more_than_may_be_held_is_told() -> None:
    fold = TaskFold(WHOLE, 10_000)
    with pytest.raises(TooLargeError):
        fold.add([(*event(n, 1, {"id": n, "b": "x" * 100}), n) for n in range(20)])


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_each_record_is_of_one_part(tasks: int) -> None:
    end = {"a": {0: 400_000, 1: 10}, "b": {0: 90_000, 1: 70_000}, "c": {0: 5}}
    begin = {"a": {0: 100_000, 1: 10}, "b": {0: 0, 1: 0}}
    found = divided(begin, end, tasks)
    assert len(found) <= tasks
    assert all(found)
    for topic, partition, low, high in (
        ("a", 0, 100_000, 400_000), ("b", 0, 0, 90_000), ("b", 1, 0, 70_000), ("c", 0, 0, 5),
    ):  # fmt: skip
        of = [part for parts in found for part in parts if part.stretch[:2] == (topic, partition)]
        assert {part.stretch[2:] for part in of} == {(low, high)}
        for key in (b'{"id":1}', b'{"id":2}', None):
            assert sum(part.has(key, 17) for part in of) == 1


def test_one_partition_is_read_by_all_tasks_and_many_by_one_each() -> None:
    assert [len(parts) for parts in divided({}, {"a": {0: 1_000_000}}, 2)] == [1, 1]
    many = divided({}, {"a": dict.fromkeys(range(8), 100_000)}, 2)
    assert [len(parts) for parts in many] == [4, 4]
    assert {part.slices for parts in many for part in parts} == {1}


def test_nothing_is_no_task() -> None:
    assert divided({"a": {0: 5}}, {"a": {0: 5}}, 2) == []
