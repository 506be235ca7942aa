"""What one pass over a view decides, and when a view is far enough to be compared."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from cdc.lsn import Position
from verification.comparison import (
    Outcome,
    Row,
    StoredRow,
    compare,
    differing_columns,
    expected_rows,
)
from verification.values.canonical_form import packed
from verification.view_positions import unapplied

AT = 1000


def row(key: int, *values: object) -> Row:
    return Row(packed((key,)), (key, *values))


def stored(key: int, lsn: int, *values: object) -> StoredRow:
    return StoredRow(row(key, *values), Position(lsn, 1), (key,))


def key(number: int) -> bytes:
    return packed((number,))


def test_equal_rows_leave_nothing() -> None:
    expected = expected_rows([row(1, "a"), row(2, None)], "v")
    outcome = compare(expected, [stored(2, 5, None), stored(1, 5, "a")], AT, keep=10)
    assert outcome == Outcome(view_rows=2)


def test_each_kind_of_difference_is_told_apart() -> None:
    expected = expected_rows([row(1, "a"), row(2, "b"), row(3, "c")], "v")
    rows = [stored(1, 5, "other"), stored(2, 5, "b"), stored(4, 999, "d")]
    outcome = compare(expected, rows, AT, keep=10)
    assert outcome.different == {key(1): (1, "other")}
    assert outcome.extra == {key(4): (4,)}
    assert outcome.missing == {key(3)}


def test_a_default_that_no_event_told_of_is_a_difference() -> None:
    """ADD COLUMN ... DEFAULT: the source shows it in every row, the view has null or no field."""
    expected = expected_rows([row(1, "a", "default"), row(2, "b", "default")], "v")
    rows = [stored(1, 5, "a", None), stored(2, 6, "b", "default")]
    outcome = compare(expected, rows, AT, keep=10)
    assert outcome.different == {key(1): (1, "a", None)}
    columns = differing_columns(["id", "name", "added"], (1, "a", "default"), (1, "a", None))
    assert list(columns) == [("added", "default", None)]


def test_rows_changed_at_the_lsn_or_later_are_not_judged() -> None:
    expected = expected_rows([row(1, "a")], "v")
    outcome = compare(expected, [stored(1, AT, "x"), stored(2, AT + 1, "y")], AT, keep=10)
    assert outcome == Outcome(view_rows=2, newer={key(1), key(2)})


def test_a_key_that_stands_twice_in_the_view_is_extra() -> None:
    expected = expected_rows([row(1, "a")], "v")
    outcome = compare(expected, [stored(1, 5, "a"), stored(1, 5, "a")], AT, keep=10)
    assert outcome.extra == {key(1): (1,)}


@pytest.mark.parametrize("places", [(5, AT), (AT, 5), (AT, AT)])
@pytest.mark.parametrize("known", [False, True])
def test_rows_that_share_a_key_are_told_also_where_one_is_not_judged(
    places: tuple[int, int], known: bool
) -> None:
    rows = [stored(1, at, "a") for at in places]
    expected = expected_rows([row(1, "a")] if known else [], "v")
    outcome = compare(expected, [*rows, stored(2, AT, "b")], AT, keep=10)
    assert outcome.doubled == {key(1)}


def test_only_the_asked_keys_are_judged() -> None:
    expected = expected_rows([row(1, "a")], "v")
    rows = [stored(1, 5, "a"), stored(2, 5, "b")]
    outcome = compare(expected, rows, AT, keep=10, only={key(1)})
    assert outcome.view_rows == 2
    assert outcome.extra == {}


def test_all_differences_are_counted_and_few_are_kept() -> None:
    expected = expected_rows([row(i, "a") for i in range(50)], "v")
    outcome = compare(expected, [stored(i, 5, "b") for i in range(50)], AT, keep=3)
    assert len(outcome.different) == 50
    assert sum(values is not None for values in outcome.different.values()) == 3


def test_a_key_that_is_not_unique_in_the_source_is_refused() -> None:
    with pytest.raises(ViewError, match=r"view v: its SQL gives 1 rows .* with another row"):
        expected_rows([row(1, "a"), row(1, "b")], "v")


def test_differing_columns_are_named_with_both_values() -> None:
    found = differing_columns(["id", "a", "b"], (1, "x", None), (1, "x", 0))
    assert list(found) == [("b", None, 0)]


def test_a_view_is_behind_where_it_committed_less_than_wanted() -> None:
    wanted = {"t": {0: 10, 1: 0, 2: 5}}
    assert unapplied(wanted, {"t": {0: 10, 2: 7}}) == []
    assert unapplied(wanted, {"t": {0: 9, 2: 5}}) == [("t", 0, 9, 10)]
    assert unapplied(wanted, {"t": {1: 0}}) == [("t", 0, None, 10), ("t", 2, None, 5)]


def test_a_view_that_committed_nothing_was_not_built_though_its_topic_is_empty() -> None:
    assert unapplied({"t": {0: 0}}, {}) == [("t", 0, None, 0)]
    assert unapplied({"t": {0: 0}}, {"t": {0: 0}}) == []
    assert unapplied({"t": {0: 0}, "u": {0: 0}}, {"t": {0: 0}}) == [("u", 0, None, 0)]
