"""Folding micro-batches: what is left of a key's changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.events.codes import PLACEHOLDER
from jobs.spark.faults import translate
from jobs.without_mirrors.fold import EVENT, Step, each, fold, fold_filling, parse
from tests.support.events.events import delete, event, kafka_frame, snapshot, truncate

pytestmark = pytest.mark.usefixtures("spark")


COLUMNS, LARGE = ("id", "v", "a", "b", "n"), ("a", "b")


def folded(spark: SparkSession, *records: Any) -> dict[str | None, dict[str, Any]]:
    """What is left, by key; the key of TRUNCATE is None."""
    return left_by(fold(), spark, records)


def filled(spark: SparkSession, *records: Any) -> dict[str | None, dict[str, Any]]:
    """What is left, with the values that the batch holds."""
    return left_by(fold_filling(COLUMNS, LARGE), spark, records)


def left_by(step: Step, spark: SparkSession, records: Sequence[Any]) -> dict[str | None, Any]:
    rows = step(parse(COLUMNS, {})(kafka_frame(spark, records))).collect()
    changes = [row[EVENT].asDict(recursive=True) for row in rows]
    return {None if change["op"] == "t" else change["image"]["id"]: change for change in changes}


def test_the_change_with_the_highest_position_wins_wherever_it_stands(spark: SparkSession) -> None:
    left = folded(
        spark,
        event(20, 1, {"id": 1, "v": "newest"}),
        event(10, 7, {"id": 1, "v": "older"}),
        event(20, 2, {"id": 2, "v": "second of its transaction"}),
        event(20, 1, {"id": 2, "v": "first"}),
    )
    assert {key: change["image"]["v"] for key, change in left.items() if change} == {
        "1": "newest",
        "2": "second of its transaction",
    }
    assert left["1"]["records"] == 2


def test_a_snapshot_row_loses_against_a_change_committed_at_its_lsn(spark: SparkSession) -> None:
    left = folded(
        spark,
        event(30, 1, {"id": 1, "v": "streamed"}),
        snapshot(30, {"id": 1, "v": "read"}),
        event(29, 9, {"id": 2, "v": "streamed"}),
        snapshot(30, {"id": 2, "v": "read"}),
    )
    assert left["1"]["image"]["v"] == "streamed"
    assert left["2"]["image"]["v"] == "read"


def test_a_delete_is_kept_and_its_tombstone_dropped(spark: SparkSession) -> None:
    left = folded(spark, event(10, 1, {"id": 1, "v": "x"}), *delete(11, 1, {"id": 1, "v": None}))
    assert left["1"]["op"] == "d"
    assert (left["1"]["commit_lsn"], left["1"]["ordinal"]) == (11, 1)


def test_unchanged_toast_comes_from_the_newest_earlier_image_that_has_it(
    spark: SparkSession,
) -> None:
    left = filled(
        spark,
        event(10, 1, {"id": 1, "a": "a1", "b": "b1", "n": 1}),
        event(11, 1, {"id": 1, "a": "a2", "b": PLACEHOLDER, "n": 2}, "u"),
        event(12, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER, "n": 3}, "u"),
    )
    assert left["1"]["image"] == {"id": "1", "v": None, "a": "a2", "b": "b1", "n": "3"}


def test_unchanged_toast_is_not_taken_from_before_a_delete(spark: SparkSession) -> None:
    left = filled(
        spark,
        event(10, 1, {"id": 1, "a": "another row's"}),
        *delete(11, 1, {"id": 1, "a": None}),
        event(12, 1, {"id": 1, "a": PLACEHOLDER}, "u"),
    )
    assert left["1"]["image"]["a"] == PLACEHOLDER
    assert left["1"]["filled"]["a"] is None


def test_a_placeholder_that_is_not_listed_as_unchanged_is_a_value(spark: SparkSession) -> None:
    left = filled(
        spark,
        event(10, 1, {"id": 1, "a": "a1", "b": "b1"}),
        event(11, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER}, "u", unchanged=["b"]),
        event(10, 2, {"id": 2, "a": "a1", "b": "b1"}),
        event(11, 2, {"id": 2, "a": PLACEHOLDER, "b": "b2"}, "u", unchanged=[]),
    )
    assert (left["1"]["image"]["a"], left["1"]["image"]["b"]) == (PLACEHOLDER, "b1")
    assert (left["2"]["image"]["a"], left["2"]["image"]["b"]) == (PLACEHOLDER, "b2")


def test_a_placeholder_of_an_insert_is_its_value(spark: SparkSession) -> None:
    records = (
        event(10, 1, {"id": 1, "a": PLACEHOLDER}),
        event(11, 1, {"id": 1, "a": PLACEHOLDER, "n": 2}, "u"),
        snapshot(12, {"id": 2, "a": PLACEHOLDER}),
    )
    left = filled(spark, *records)
    assert (left["1"]["image"]["a"], left["1"]["filled"]["a"]) == (PLACEHOLDER, "0" * 16)
    assert (left["2"]["image"]["a"], left["2"]["partial"]) == (PLACEHOLDER, False)


def test_a_filled_value_remembers_the_schema_it_was_written_under(spark: SparkSession) -> None:
    left = filled(
        spark,
        event(10, 1, {"id": 1, "a": "a1", "b": "b1"}, schema_id="1" * 16),
        event(11, 1, {"id": 1, "a": "a2", "b": PLACEHOLDER}, "u", schema_id="2" * 16),
        event(12, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER}, "u", schema_id="3" * 16),
    )
    assert left["1"]["filled"] == {"a": "2" * 16, "b": "1" * 16}


@pytest.mark.parametrize("made", [fold_filling, each])
def test_a_version_that_comes_back_takes_values_of_the_one_in_between(
    spark: SparkSession, made: Callable[[Sequence[str], Sequence[str]], Step]
) -> None:
    records = (
        event(10, 1, {"id": 1, "a": "a1", "b": "b1"}, schema_id="1" * 16),
        event(11, 1, {"id": 1, "a": "a2", "b": PLACEHOLDER, "n": 1}, "u", schema_id="2" * 16),
        event(12, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER}, "u", schema_id="1" * 16),
    )
    rows = made(COLUMNS, LARGE)(parse(COLUMNS, {})(kafka_frame(spark, records))).collect()
    last = max((row[EVENT].asDict(recursive=True) for row in rows), key=lambda e: e["commit_lsn"])
    assert (last["image"]["a"], last["image"]["b"]) == ("a2", "b1")
    assert last["filled"] == {"a": "2" * 16, "b": "1" * 16}


def test_unchanged_toast_without_an_earlier_image_stays_unchanged(spark: SparkSession) -> None:
    left = filled(spark, event(12, 1, {"id": 1, "a": PLACEHOLDER, "n": None}, "u"))
    assert (left["1"]["image"]["a"], left["1"]["image"]["n"]) == (PLACEHOLDER, None)


def test_what_only_a_row_of_a_snapshot_has_says_where_it_was_read(spark: SparkSession) -> None:
    records = (
        snapshot(50, {"id": 1, "a": "a", "b": "b"}),
        event(60, 1, {"id": 1, "a": "newer", "b": PLACEHOLDER}, "u"),
        event(70, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER}, "u"),
        snapshot(50, {"id": 2, "a": "a", "b": "b"}),
        event(60, 1, {"id": 2, "a": "a", "b": "newer"}, "u"),
        event(70, 1, {"id": 2, "a": PLACEHOLDER, "b": PLACEHOLDER}, "u"),
    )
    for left in (filled(spark, *records), left_by(each(COLUMNS, LARGE), spark, records)):
        assert (left["1"]["read"], left["1"]["read_lsn"]) == (["b"], 50)
        assert (left["1"]["image"]["a"], left["1"]["image"]["b"]) == ("newer", "b")
        assert (left["2"]["read"], left["2"]["read_lsn"]) == ([], None)


def test_each_event_is_kept_with_what_was_known_by_then(spark: SparkSession) -> None:
    records = (
        event(12, 1, {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER, "n": 3}, "u"),
        event(10, 1, {"id": 1, "a": "a1", "b": None, "n": 1}, schema_id="1" * 16),
        event(11, 1, {"id": 1, "a": "a2", "b": PLACEHOLDER, "n": 2}, "u"),
        *delete(13, 1, {"id": 1, "a": None}),
        event(14, 1, {"id": 1, "a": PLACEHOLDER, "b": "b5"}, "u"),
        truncate(15, 1),
    )
    rows = each(COLUMNS, LARGE)(parse(COLUMNS, {})(kafka_frame(spark, records))).collect()
    found = sorted(
        (row[EVENT].asDict(recursive=True) for row in rows), key=lambda e: e["commit_lsn"]
    )
    assert [(e["op"], e["image"] and (e["image"]["a"], e["image"]["b"])) for e in found] == [
        ("c", ("a1", None)), ("u", ("a2", None)), ("u", ("a2", None)), ("d", (None, None)),
        ("u", (PLACEHOLDER, "b5")), ("t", (None, None)),
    ]  # fmt: skip
    assert found[2]["filled"] == {"a": "0" * 16, "b": "1" * 16}
    assert found[4]["filled"] == {"a": None, "b": "0" * 16}
    assert [e["records"] for e in found] == [1] * 6


def test_what_an_earlier_change_may_have_is_a_gap(spark: SparkSession) -> None:
    records = (
        event(10, 1, {"id": 1, "a": "a1"}),
        event(11, 1, {"id": 1, "a": PLACEHOLDER}, "u"),
        event(12, 1, {"id": 2, "a": PLACEHOLDER}, "u"),
        event(13, 1, {"id": 3, "a": PLACEHOLDER}, "u"),
        event(14, 1, {"id": 3, "a": "a3"}, "u"),
    )
    left = folded(spark, *records)
    assert {key for key, change in left.items() if change["gap"]} == {"1"}
    assert left["1"]["image"]["a"] == PLACEHOLDER
    assert not any(change["gap"] for change in filled(spark, *records).values())


def test_filling_changes_nothing_but_placeholders(spark: SparkSession) -> None:
    records = (
        snapshot(9, {"id": 4, "a": None, "b": "b"}),
        event(10, 1, {"id": 1, "a": "a1", "b": None}),
        *delete(11, 1, {"id": 1, "a": None}),
        event(12, 1, {"id": 2, "a": None, "b": "b2", "v": "x"}),
        event(12, 2, {"id": 2, "a": "", "b": PLACEHOLDER, "v": PLACEHOLDER}, "u"),
        event(13, 1, {"id": 4, "a": "a4", "b": "b"}, "u"),
        truncate(8, 1),
    )
    plain, whole = folded(spark, *records), filled(spark, *records)
    assert whole["2"]["image"]["b"] == "b2"
    assert whole["2"]["image"]["v"] == PLACEHOLDER  # not a large column: that is its value
    whole["2"] |= {"gap": True, "filled": None, "read": None}
    whole["2"]["image"]["b"] = PLACEHOLDER
    assert whole == plain


def test_of_several_truncates_the_newest_is_left(spark: SparkSession) -> None:
    left = folded(spark, truncate(10, 1), truncate(12, 1), event(11, 1, {"id": 1}))
    assert (left[None]["op"], left[None]["commit_lsn"]) == ("t", 12)


def test_numbers_keep_every_digit(spark: SparkSession) -> None:
    left = folded(spark, event(10, 1, {"id": 9007199254740993, "n": "0.10"}))
    assert left["9007199254740993"]["image"]["n"] == "0.10"


def test_a_foreign_record_is_named_by_its_place(spark: SparkSession) -> None:
    alien = (b"k", json.dumps({"after": {"id": 1}, "op": "c"}).encode())
    with pytest.raises(Exception, match="not an event") as caught:
        folded(spark, event(10, 1, {"id": 1}), alien)
    assert "events-0-1" in str(translate(caught.value, "v"))


def test_a_value_may_be_as_large_as_a_record(spark: SparkSession) -> None:
    large = "x" * 20_000_001  # Jackson's own limit is 20 million characters
    assert len(folded(spark, event(10, 1, {"id": 1, "v": large}))["1"]["image"]["v"]) == len(large)
