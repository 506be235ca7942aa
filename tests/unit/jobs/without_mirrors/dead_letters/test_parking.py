"""Poison events of a view, batch by batch, without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.errors import ViewError
from cdc.events.codes import PLACEHOLDER
from jobs.generations.view_state import Beginning
from jobs.spark.faults import UnfitValueError
from jobs.without_mirrors.dead_letters.letter import Owner
from tests.support.events.events import Record, delete, event, snapshot, truncate
from tests.support.views.parked_view import KilledError, ParkedView

ONE, TWO = '{"id":1}', '{"id":2}'
STEPS = ("before write", "before apply", "before settle", "before commit")
"""Between any two of them one thing is written: letters, rows, what was settled."""


@pytest.fixture
def view(spark: SparkSession, tmp_path: Path) -> ParkedView:
    return ParkedView(spark, tmp_path)


def put(lsn: int, id_: int, body: str, n: int = 1, op: str = "u") -> Record:
    return event(lsn, 1, {"id": id_, "body": body, "n": n}, op)


def bad(lsn: int, id_: int, body: str = "bad") -> Record:
    return put(lsn, id_, body, -1)


def test_the_rest_of_a_batch_flows_past_poison_and_all_of_its_keys_waits_in_order(
    view: ParkedView,
) -> None:
    """Also past what only the store can refuse. A batch that is good is not looked at, and a poison
    event that is over in its own batch is none."""
    view.apply(put(1, 9, "good"))
    assert (view.looked, view.box.written) == (0, [])
    unknown = event(8, 1, {"id": 5, "body": "?"}, schema_id="f" * 16)
    view.apply(
        put(1, 1, "a"), bad(2, 2), put(3, 3, "c"),
        put(4, 4, "first", op="c"), put(5, 4, "second"), bad(6, 4),
        unknown, bad(9, 6), put(10, 6, "mended"), put(11, 7, PLACEHOLDER),
    )  # fmt: skip
    assert view.rows() == {1: "a", 3: "c", 6: "mended", 9: "good"}
    assert view.waiting() == {
        TWO: ["2"], '{"id":4}': ["4", "5", "6"], '{"id":5}': ["7"], '{"id":7}': ["10"],
    }  # fmt: skip
    overflow = "view v: Spark stopped with ARITHMETIC_OVERFLOW"
    unknown_schema, of_store, *others = sorted(filter(None, view.causes()))
    assert [unknown_schema, *others] == ["an unknown schema_id", overflow, overflow]
    assert "neither the change nor the store" in of_store


def test_what_comes_later_of_a_parked_key_goes_behind_it_also_after_a_restart(
    view: ParkedView,
) -> None:
    view.apply(bad(1, 1), put(2, 2, "b"))
    view.apply(put(3, 1, "later"), put(4, 2, "c"))
    view.restart()
    view.apply(put(5, 1, "last"), put(6, 2, "d"))
    assert view.rows() == {2: "d"}
    assert view.waiting() == {ONE: ["0", "2", "4"]}
    assert [bool(cause) for cause in view.causes()] == [True, False, False]
    assert view.looked == 1


def test_records_that_are_no_events_park_their_key_if_they_have_one(view: ParkedView) -> None:
    view.apply(put(1, 1, "a"), (b'{"id":1}', b"{"), (None, b"odd"), (b"\xff", b"[]"))
    view.apply(put(2, 1, "later"), put(3, 2, "b"))
    assert view.rows() == {2: "b"}
    keys = view.box.letters.keys
    assert {owner.key: [one.offset for one in of] for owner, of in keys.items()} == {
        b'{"id":1}': [0, 1, 4],
        b"\xff": [3],
    }
    assert [one.offset for one in view.box.letters.keyless] == [2]
    assert view.parking.parked == 3
    assert [letter.position for letter in keys[Owner("events", b"\xff")]] == [None]


def test_a_large_value_that_nobody_has_parks_its_row(spark: SparkSession, tmp_path: Path) -> None:
    view = ParkedView(spark, tmp_path, "select id, body, upper(body) as loud from t")
    view.apply(put(1, 2, "b"), put(2, 1, PLACEHOLDER))
    assert view.rows() == {2: "b"}
    assert "does not carry its TOASTed value" in view.causes()[0]


def test_a_delete_of_a_parked_key_is_applied_and_frees_it(view: ParkedView) -> None:
    """Of the key 1; 2 is made again behind its delete and may be poison again; 3 was read later
    than the delete that comes, which does not free it."""
    view.apply(put(1, 1, "a", op="c"))
    view.apply(bad(2, 1), bad(1, 2), snapshot(10, {"id": 3, "body": "read", "n": -1}))
    view.apply(
        put(3, 1, "behind"), *delete(4, 1, {"id": 1}), put(5, 4, "d"),
        *delete(2, 1, {"id": 2}), bad(3, 2),
        *delete(5, 1, {"id": 3}), put(6, 3, "made again", op="c"),
    )  # fmt: skip
    assert view.rows() == {4: "d"}
    assert view.waiting() == {TWO: ["2", "8", "10"], '{"id":3}': ["3", "11", "13"]}
    assert len(view.box.written) == 8  # 1 went behind, and is over
    view.apply(put(6, 1, "a new life", op="c"))
    assert view.rows() == {1: "a new life", 4: "d"}


def test_a_truncate_frees_what_was_parked_before_it(view: ParkedView) -> None:
    view.apply(bad(1, 1), put(1, 2, "b"), (b'{"id":3}', b"odd"))
    view.apply(truncate(5, 1), put(6, 1, "after"))
    assert view.rows() == {1: "after"}
    assert view.waiting() == {'{"id":3}': ["2"]}  # nobody knows whether it was before


def test_poison_that_would_be_left_out_anyway_is_no_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = ParkedView(spark, tmp_path)
    (tmp_path / "v" / "checkpoint").rmdir()
    view.restart(Beginning({}, 100, 100))
    view.apply(bad(50, 1), put(120, 2, "b"))
    assert view.rows() == {2: "b"}
    assert view.box.written == []
    view.apply(put(130, 1, "newer"))
    assert view.rows() == {1: "newer", 2: "b"}


def test_killed_between_any_two_steps_nothing_is_lost_or_doubled(view: ParkedView) -> None:
    """A batch that comes again behind each kill, and is killed one step later."""
    view.apply(bad(1, 1), bad(2, 2), put(3, 3, "c"))
    batch = (put(4, 1, "behind"), *delete(5, 2, {"id": 2}), put(6, 3, "d"), bad(7, 4))
    for step in STEPS:
        view.box.killing = step
        with pytest.raises(KilledError):
            view.apply(*batch)
        view.restart()
    view.box.killing = ""
    view.again()
    assert view.rows() == {3: "d"}
    assert view.waiting() == {ONE: ["0", "3"], '{"id":4}': ["7"]}
    assert sorted(view.box.written) == sorted(set(view.box.written))
    view.restart()
    view.apply(put(8, 2, "lives"), put(9, 4, "behind"))
    assert view.rows() == {2: "lives", 3: "d"}
    assert view.waiting() == {ONE: ["0", "3"], '{"id":4}': ["7", "9"]}


def test_what_was_settled_meanwhile_does_not_come_again_with_its_batch(view: ParkedView) -> None:
    view.box.killing = "before commit"
    with pytest.raises(KilledError):
        view.apply(bad(1, 1), (None, b"odd"), put(2, 2, "b"))
    view.box.letters.settle(list(view.box.letters.open))
    view.box.killing = ""
    view.restart()
    view.again()
    assert (view.rows(), view.waiting(), view.parking.parked) == ({2: "b"}, {}, 0)
    view.apply(put(3, 1, "next"))
    assert view.rows() == {1: "next", 2: "b"}


def test_more_poison_than_the_limit_stops_the_view_and_parks_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = ParkedView(spark, tmp_path, limit=4)
    view.apply(*(bad(i, i) for i in range(1, 4)))
    with pytest.raises(ViewError, match=r"more than 4 keys.*dlq_limit = 4; 3 keys") as stopped:
        view.apply(*(bad(10 + i, 10 + i) for i in range(9)), put(90, 90, "z"))
    assert "ARITHMETIC_OVERFLOW" in str(stopped.value)
    assert "headwater dead-letters list v" in str(stopped.value)
    assert view.parking.parked == 3
    assert view.rows() == {}


def test_without_a_limit_the_first_poison_event_stops_the_view(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = ParkedView(spark, tmp_path, limit=0)
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        view.apply(put(1, 2, "b"), bad(1, 1))
    assert view.looked == 0


def test_events_behind_a_parked_key_are_limited_too(
    view: ParkedView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.without_mirrors.dead_letters.parking.LETTERS_PER_KEY", 1)
    view.apply(bad(1, 1))
    view.apply(*(put(2, 1, str(i)) for i in range(9)))
    with pytest.raises(ViewError, match="more than 10 events of parked keys"):
        view.apply(put(3, 1, "one too many"))


def test_a_fault_of_no_single_event_stops_the_view(
    view: ParkedView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise UnfitValueError("not of a row")

    monkeypatch.setattr(view.sink, "apply", broken)
    with pytest.raises(UnfitValueError, match="not of a row"):
        view.apply(put(1, 1, "a"), put(2, 2, "b"))
    assert view.box.written == []


def test_a_late_row_of_a_snapshot_that_cannot_be_computed_parks_its_key(view: ParkedView) -> None:
    """It is given to the store before what is newer, as that leaves a value out."""
    view.apply(put(90, 1, "of 90"))
    read = snapshot(50, {"id": 1, "body": "of 50", "n": -1})
    view.apply(put(91, 2, "b"), read, put(100, 1, PLACEHOLDER))
    assert view.rows() == {1: "of 90", 2: "b"}
    assert view.waiting() == {ONE: ["2", "3"]}
