"""A large batch: how it is divided, and how a task folds its part, without Spark and Kafka."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from cdc.events.codes import PLACEHOLDER
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Stretch
from jobs.batch.task_fold import TaskFold, TooLargeError, batches
from jobs.batch.task_parts import Part, divided
from tests.support.events.events import event
from tests.support.events.fold_model import comparable, fetched, in_order, model
from tests.support.events.random_batches import random_events

WHOLE = Part(Stretch("s.public.t", 0, 0, 1 << 40))


def folded(records: list[FetchedRecord], part: Part = WHOLE) -> list[dict[str, Any]]:
    fold = TaskFold(part, 1 << 30)
    for some in (records[at : at + 7] for at in range(0, len(records), 7)):
        fold.add([(one.key, one.value, one.offset) for one in some])
    return [row for batch in batches(part, fold.rows()) for row in batch.to_pylist()]


def test_random_parts_are_folded_as_the_reference_folds_them() -> None:
    for seed in range(300):
        random = Random(seed)
        records = fetched(random_events(random, random.randrange(1, 60)), "s.public.t")
        rows = comparable(folded(records))
        assert in_order(rows) == in_order(model(records)), f"seed {seed}"


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
