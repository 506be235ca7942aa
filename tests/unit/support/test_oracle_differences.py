"""The comparison with Debezium objects to what it should: a difference at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.oracle.differences import Difference, Emitted, comparable, differences, why

TOPIC = "public.t"
SOURCE = {
    "version": "3",
    "name": "theirs",
    "lsn": 7,
    "sequence": '["5","7"]',
    "txId": 1,
    "ts_ms": 1,
}


def event(op: str = "u") -> Emitted:
    row = {"id": 1, "a": "x", "n": None}
    value = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": dict(SOURCE),
        "transaction": None,
        "op": op,
        "ts_ms": 1,
    }
    return Emitted({"id": 1}, value, {})


def ours_of(theirs: Emitted) -> Emitted:
    ours = copy.deepcopy(theirs)
    ours.value["source"] |= {"version": "0", "name": "ours", "commit_lsn": 9, "ordinal": 1}
    ours.value["ts_ms"] = 2
    return ours


def found(theirs: Emitted, ours: Emitted) -> list[Difference]:
    return list(differences(TOPIC, [theirs], [ours]))


def test_versions_names_clocks_and_our_positions_are_no_difference() -> None:
    assert found(event(), ours_of(event())) == []


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("op",), "c", "op"),
        (("after", "a"), "y", "after.a"),
        (("after", "id"), True, "after.id"),
        (("after", "n"), "", "after.n"),
        (("source", "lsn"), 8, "source.lsn"),
        (("source", "sequence"), '["6","7"]', "source.sequence"),
        (("transaction",), {"id": "1"}, "transaction"),
    ],
)
def test_each_changed_field_is_an_unlisted_difference(
    path: tuple[str, ...], value: Any, field: str
) -> None:
    ours = ours_of(event())
    target = ours.value
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    (difference,) = found(event(), ours)
    assert difference.field == field
    assert why(difference, {}) is None


def test_keys_headers_tombstones_and_missing_events_are_differences() -> None:
    theirs, ours = event(), ours_of(event())
    assert [d.field for d in found(theirs, ours._replace(key={"id": 2}))] == ["key"]
    assert [d.field for d in found(theirs, ours._replace(headers={"h": "1"}))] == ["headers"]
    assert "value" in [d.field for d in found(theirs, ours._replace(value=None))]
    (missing,) = differences(TOPIC, [theirs, theirs], [ours])
    assert (missing.field, missing.place) == ("event", 1)
    assert why(missing, {}) is None


def test_what_is_listed_is_told_by_its_name() -> None:
    theirs, ours = event("d"), ours_of(event("d"))
    theirs.value["before"]["n"] = 0
    (filled,) = found(theirs, ours)
    assert why(filled, {}) == "key-only before"
    changed = Difference(TOPIC, 0, "after.v", "c", None, "n")
    assert why(changed, {}) is None
    assert why(changed, {(TOPIC, '"n"'): "values: replaced"}) == "values: replaced"


def test_tombstones_without_a_key_are_theirs_alone() -> None:
    kept, ours = comparable([event(), Emitted(None, None, {})], [event()])
    assert (len(kept), len(ours)) == (1, 1)
