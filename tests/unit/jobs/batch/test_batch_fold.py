"""A small batch, against a reference of few lines."""

from __future__ import annotations

import json
from random import Random

import pytest

from jobs.batch.folded_rows import count
from jobs.batch.small_batch import fold
from tests.support.events.events import Record, delete, event, snapshot, truncate
from tests.support.events.fold_model import comparable, fetched, in_order, model
from tests.support.events.random_batches import random_events

BODY = "__debezium_unavailable_value"


def folded(*records: Record) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = fold(fetched(records, "s.public.t")).to_pylist()
    return rows


def test_random_batches_are_folded_as_the_reference_folds_them() -> None:
    for seed in range(300):
        random = Random(seed)
        records = fetched(random_events(random, random.randrange(1, 60)), "s.public.t")
        rows = fold(records)
        assert in_order(comparable(rows.to_pylist())) == in_order(model(records)), f"seed {seed}"
        assert count(rows) == sum(record.value is not None for record in records)


@pytest.mark.parametrize(
    "image",
    [
        '{"a":1e+20,"b":1.50,"c":-0,"d":9007199254740993}',
        '{"a":"\\u00e9\\/","b":"é","c":"a  b\\t","d":"\\ud83d\\ude00"}',
        '{"a":",\\"source\\":{","b":"},\\"after\\":","after":null}',
        '{"a":[1,[2,null]],"b":[],"c":["},",":{"],"d":true}',
        "{}",
    ],
)
@pytest.mark.parametrize("spaces", ["", " ", "\n\t"])
def test_images_are_the_very_bytes_of_the_event(image: str, spaces: str) -> None:
    source = '{"commit_lsn":7,"ordinal":1,"schema_id":"s","ts_us":5}'
    value = (
        f'{{{spaces}"before":{spaces}{image}{spaces},"after":{image},"source":{source},"op":"u"}}'
    )
    (row,) = folded((b'{"a":1}', value.encode()))
    assert (row["before"], row["after"]) == (image, image)


def test_a_row_of_a_snapshot_loses_against_a_change_at_its_lsn() -> None:
    (row,) = folded(event(10, 1, {"id": 1, "n": 2}, "u"), snapshot(10, {"id": 1, "n": 1}))
    assert (row["op"], row["after"], row["records"]) == ("u", '{"id":1,"n":2}', 2)


def test_a_value_left_out_is_taken_from_the_newest_image_that_has_it() -> None:
    (row,) = folded(
        event(1, 1, {"id": 1, "body": "one", "n": 1}),
        event(2, 1, {"id": 1, "body": "two", "n": 2}, "u"),
        event(3, 1, {"id": 1, "body": BODY, "n": 3}, "u", unchanged=["body"]),
        event(4, 1, {"id": 1, "body": BODY, "n": 4}, "u", unchanged=["body"]),
    )
    assert json.loads(str(row["after"])) == {"id": 1, "body": "two", "n": 4}
    assert row["unchanged"] is None


def test_a_value_from_before_a_delete_is_another_rows() -> None:
    (row,) = folded(
        event(1, 1, {"id": 1, "body": "one"}),
        *delete(2, 1, {"id": 1, "body": None}),
        event(3, 1, {"id": 1, "body": BODY}, "u", unchanged=["body"]),
    )
    assert (row["unchanged"], row["records"]) == (["body"], 3)


def test_a_value_is_not_taken_from_before_another_version_that_changed_it() -> None:
    a, b = "a" * 16, "b" * 16
    rows = folded(
        event(1, 1, {"id": 1, "body": "one"}, schema_id=a),
        event(2, 1, {"id": 1, "body": "two", "more": 1}, "u", schema_id=b),
        event(3, 1, {"id": 1, "body": BODY}, "u", schema_id=a, unchanged=["body"]),
    )
    found = sorted((row["commit_lsn"], row["after"], row["unchanged"]) for row in rows)
    assert found == [
        (1, '{"id":1,"body":"one"}', None),
        (2, '{"id":1,"body":"two","more":1}', None),
        (3, f'{{"id":1,"body":"{BODY}"}}', ["body"]),
    ]


def test_of_truncates_the_newest_is_kept_and_records_without_a_key_all() -> None:
    unkeyed = [(None, event(lsn, 1, {"id": 1})[1]) for lsn in (5, 6)]
    rows = folded(truncate(3, 1), *unkeyed, truncate(9, 1))
    assert sorted((row["op"], row["commit_lsn"]) for row in rows) == [
        ("c", 5), ("c", 6), ("t", 9),
    ]  # fmt: skip


def test_a_record_that_is_no_event_is_named() -> None:
    rows = folded((b"\xff", b"{}"), (b'{"id":1}', b"nonsense"), event(1, 1, {"id": 1}))
    found = {row["offset"]: (row["op"], row["cause"]) for row in rows}
    foreign = (None, "not an event of Headwater")
    assert found == {0: foreign, 1: foreign, 2: ("c", None)}


@pytest.mark.parametrize(
    "value",
    [
        '{"op":"u","source":{"commit_lsn":9223372036854775808,"ordinal":1,"schema_id":"s"}}',
        '{"op":"u","source":{"commit_lsn":1,"ordinal":1e80,"schema_id":"s"}}',
        '{"op":"u","source":{"commit_lsn":1,"ordinal":1,"schema_id":"s","ts_us":99999999999999999999}}',
        '{"op":"u","after":[1],"source":{"commit_lsn":1,"ordinal":1,"schema_id":"s"}}',
        '{"op":"u","before":5,"source":{"commit_lsn":1,"ordinal":1,"schema_id":"s"}}',
        '{"op":"u","source":{"commit_lsn":1,"ordinal":1,"schema_id":"s"},"x":DEEP}',
    ],
)
def test_what_looks_like_an_event_and_is_none_stops_nothing(value: str) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    rows = folded((b'{"id":1}', value.replace("DEEP", deep).encode()), event(2, 1, {"id": 1}))
    assert sorted((row["op"] or "", row["cause"]) for row in rows) == [
        ("", "not an event of Headwater"), ("c", None),
    ]  # fmt: skip


def test_a_large_record_goes_through() -> None:
    body = "x" * (9 << 20)
    rows = folded(event(1, 1, {"id": 1, "b": body}), event(2, 1, {"id": 2, "b": body}))
    assert sorted(len(str(row["after"])) for row in rows) == [len(body) + 15] * 2


def test_of_no_record_there_is_no_row() -> None:
    assert folded() == []
    assert folded((b'{"id":1}', None)) == []
