"""Folded rows without Spark: filled images, and tables that are to be applied in steps."""

from __future__ import annotations

import pyarrow as pa

from jobs.batch.folded_rows import SCHEMA, oldest_us, steps
from jobs.batch.images import Image, filled, read_row


def rows(*found: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), **row} for row in found], SCHEMA)


def of_key(key: str, version: str, at: int, **more: object) -> dict[str, object]:
    place = {"topic": "t", "key": key, "schema_id": version, "commit_lsn": at, "ordinal": 1}
    return {**place, "op": "u", "records": 1, **more}


def test_text_of_values_is_not_written_anew() -> None:
    last = Image('{"id":1,"a":"?","b":"?","n":1e+20}', ["a", "b"])
    earlier = [Image('{"id":1,"a":"?","b":"\\u00e9"}', ["a"]), Image('{"id":1,"a":-0,"b":2}', ())]
    image = filled(last, earlier)
    assert image == Image('{"id":1,"a":-0,"b":"\\u00e9","n":1e+20}', [])


def test_what_is_not_found_stays_listed() -> None:
    last = Image('{"id":1,"a":"?","b":"?"}', ["a", "b"])
    assert filled(last, [Image('{"id":1,"b":3}', ())]) == Image('{"id":1,"a":"?","b":3}', ["a"])
    assert filled(last, [Image(None, ()), Image('{"id":1,"a":3}', ())]) == last


def test_a_value_of_a_snapshot_stays_listed() -> None:
    row = read_row('{"id":1,"a":2,"b":3}', 50)
    last = Image('{"id":1,"a":"?","b":"?"}', ["a", "b"])
    assert filled(last, [row]) == Image('{"id":1,"a":2,"b":3}', ["a", "b"], 50)
    between = [Image('{"id":1,"a":4,"b":"?"}', ["b"]), row, Image('{"id":1,"a":0,"b":0}', ())]
    assert filled(last, between) == Image('{"id":1,"a":4,"b":3}', ["b"], 50)
    assert filled(last, [filled(between[0], [row])]) == Image('{"id":1,"a":4,"b":3}', ["b"], 50)
    assert filled(last, [Image('{"id":1,"a":4,"b":5}', ()), row]).read_lsn is None


def test_a_batch_of_one_version_is_one_step() -> None:
    table = rows({"topic": "t", "schema_id": "a", "unchanged": ["x"]})
    assert steps(table) == [table]


def test_versions_are_steps_in_the_order_of_their_positions() -> None:
    table = rows(
        of_key("1", "b", 9, unchanged=["x"]),
        of_key("1", "a", 2),
        {**of_key("1", "c", 12), "topic": "u"},
    )
    found = [step.column("schema_id").to_pylist() for step in steps(table)]
    assert found == [["a", "c"], ["b"]]


def test_a_truncate_is_in_no_earlier_step_than_what_it_removes() -> None:
    table = rows(
        {**of_key("1", "b", 9, op="t"), "key": None},
        of_key("1", "a", 2),
        of_key("1", "b", 5, unchanged=["x"]),
        of_key("2", "b", 11),
    )
    found = [step.column("commit_lsn").to_pylist() for step in steps(table)]
    assert found == [[2], [9, 5, 11]]


def test_a_version_that_comes_back_takes_large_values_from_what_came_before_it() -> None:
    """A column is added and dropped: the version is the first one again."""
    table = rows(
        of_key("1", "a", 2),
        of_key("2", "b", 5),
        of_key("2", "a", 9, unchanged=["x"]),
    )
    found = [step.column("commit_lsn").to_pylist() for step in steps(table)]
    assert found == [[2], [5], [9]]


def test_a_row_under_another_name_of_its_key_is_in_a_later_step_too() -> None:
    table = rows(of_key("number=1", "b", 5, unchanged=["x"]), of_key("id=1", "a", 2))
    found = [step.column("commit_lsn").to_pylist() for step in steps(table)]
    assert found == [[2], [5]]


def test_what_is_no_event_is_of_no_version() -> None:
    foreign: dict[str, object] = {"topic": "t", "cause": "none"}
    table = rows(foreign, of_key("1", "a", 2, unchanged=["x"]))
    assert steps(table) == [table]
    table = rows(of_key("1", "b", 5, unchanged=["x"]), foreign, of_key("1", "a", 2))
    found = [step.column("commit_lsn").to_pylist() for step in steps(table)]
    assert found == [[None, 2], [5]]


def test_versions_without_values_left_out_are_one_step() -> None:
    table = rows({"topic": "t", "schema_id": "b"}, {"topic": "t", "schema_id": "a"})
    assert steps(table) == [table]


def test_the_oldest_commit_is_that_of_any_row() -> None:
    assert oldest_us(rows({"oldest_us": 7}, {"oldest_us": 3}, {})) == 3
    assert oldest_us(rows({})) is None
