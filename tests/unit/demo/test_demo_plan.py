"""The demo's day: real flights in, the same transactions out, every time."""

from __future__ import annotations

from collections import Counter

import pytest

from demo.data import LIVE_DATE, Data, clock, read_data
from demo.plan import RENUMBERED, Transaction, plan

SEED = 2013


@pytest.fixture(scope="module")
def data() -> Data:
    return read_data(5_000)


@pytest.fixture(scope="module")
def day(data: Data) -> list[Transaction]:
    return plan(data.live, SEED)


@pytest.mark.parametrize(
    ("number", "time"),
    [("1", "00:01"), ("59", "00:59"), ("517", "05:17"), ("2400", "24:00"), (None, None)],
)
def test_times_of_day_are_read_as_the_files_write_them(
    number: str | None, time: str | None
) -> None:
    assert clock(number) == time


def test_the_live_day_is_held_back_whole_and_never_loaded(data: Data) -> None:
    assert {name: len(rows) for name, rows in data.tables.items()} == {
        "airlines": 16,
        "airports": 1_458,
        "planes": 3_322,
        "weather": 26_115,
        "flights": 5_000,
    }
    assert len(data.live) == 928
    assert {flight.flight_date for flight in data.live} == {LIVE_DATE}
    assert LIVE_DATE not in {row[1] for row in data.tables["flights"]}


def test_missing_values_are_null_and_never_text(data: Data) -> None:
    assert not any("NA" in row for rows in data.tables.values() for row in rows)
    assert any(None in row for row in data.tables["flights"])


def test_a_plan_depends_on_its_seed_alone(data: Data, day: list[Transaction]) -> None:
    assert plan(data.live, SEED) == day
    assert plan(data.live, SEED + 1) != day


def test_the_day_holds_every_kind_of_change(data: Data, day: list[Transaction]) -> None:
    kinds = Counter(transaction.kind for transaction in day)
    left = sum(flight.dep_time is not None for flight in data.live)
    assert kinds["insert"] == len(data.live)
    assert kinds["departure"] == left
    assert kinds["cancel"] == len(data.live) - left
    assert kinds["delay"] > 100
    assert kinds["key change"] == kinds["bulk"] == kinds["alter"] == kinds["rename"] == 1


def test_a_flight_is_inserted_before_anything_else_happens_to_it(day: list[Transaction]) -> None:
    known: set[object] = set()
    for transaction in day:
        values = transaction.statements[0][1]
        if transaction.kind == "insert":
            known.add(values[0])
        elif transaction.kind in ("delay", "departure", "landing", "cancel"):
            assert values[-1] in known


def test_a_renumbered_flight_is_not_touched_under_its_old_number(day: list[Transaction]) -> None:
    place = next(i for i, transaction in enumerate(day) if transaction.kind == "key change")
    new, old = day[place].statements[0][1]
    assert int(str(new)) == int(str(old)) + RENUMBERED
    later = [transaction.statements[0][1] for transaction in day[place + 1 :]]
    assert not any(values and values[-1] == old for values in later)


def test_gates_are_named_from_the_added_column_on(day: list[Transaction]) -> None:
    place = next(i for i, transaction in enumerate(day) if transaction.kind == "alter")
    gated = [i for i, t in enumerate(day) if "gate" in t.statements[0][0] and t.kind != "alter"]
    assert gated
    assert min(gated) > place
    after = [i for i, t in enumerate(day) if t.kind == "departure" and i > place]
    assert gated == after


def test_a_day_too_short_for_the_story_is_refused(data: Data) -> None:
    with pytest.raises(ValueError, match="too short"):
        plan(data.live[:20], SEED)
