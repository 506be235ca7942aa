"""What a whole-path seed of ``make chaos`` draws, and that its comparison objects. No server."""

from __future__ import annotations

import pytest

from tests.chaos.compare import differences
from tests.chaos.faults import FAULTS, plan
from tests.chaos.options import options
from tests.chaos.storefaults import APPLY_KILLED, WHOLE_FAULTS, apply_kills, store_kills
from tests.chaos.views import GROUPED, SEVERAL_ROWS, STORES, Kept, kept
from views.definition import parse_view

SEEDS = range(3, 300, 3)
VIEW = Kept("v", "redis", ("a", "b"), "select 1")
ROWS = {("x", 1): {"a": "x", "b": 1, "n": 1}, ("y", 2): {"a": "y", "b": 2}}


def test_every_third_seed_goes_the_whole_path_unless_told_otherwise() -> None:
    assert [seed for seed in range(1, 10) if options(seed).whole] == [3, 6, 9]
    assert not options(3, stores=False).whole
    assert options(1, stores=True).whole
    assert options(1, stores=True)._replace(whole=False, message_bytes=0) == options(1)._replace(
        message_bytes=0
    )


def test_views_would_lack_what_is_a_dead_letter() -> None:
    assert all(options(seed).limit is None for seed in SEEDS)
    assert any(options(seed, stores=False).limit is not None for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_keeps_rows_of_one_table_a_join_and_a_group_in_every_store(seed: int) -> None:
    views = kept("s", seed)
    assert {view.store for view in views[: len(STORES)]} == set(STORES)
    rest = {view.name.removeprefix("s_") for view in views[len(STORES) :]}
    assert rest & set(GROUPED)
    assert rest & (SEVERAL_ROWS.keys() - set(GROUPED))
    for view in views:
        parsed = parse_view(view.name, view.store, view.key, view.sql)
        assert parsed.maintained == (view.name.removeprefix("s_") in SEVERAL_ROWS)


def test_a_whole_path_kills_apply_and_a_store_and_the_rest_draws_every_fault() -> None:
    drawn = [[step.fault for step in plan(seed, whole=True)] for seed in SEEDS]
    assert all(APPLY_KILLED in faults for faults in drawn)
    assert all(any(map(store_kills, faults)) for faults in drawn)
    assert all("capture killed" in faults for faults in drawn)
    assert {fault for faults in drawn for fault in faults} == {*FAULTS, *WHOLE_FAULTS}


def test_kills_are_counted_by_what_is_killed() -> None:
    both = {fault for fault in WHOLE_FAULTS if apply_kills(fault) and store_kills(fault)}
    assert both == {
        f"{store} store and apply killed" for store in ("opensearch", "redis", "postgres")
    }
    assert not store_kills("apply killed while the redis store stalls")
    assert not any(apply_kills(fault) or store_kills(fault) for fault in FAULTS)


def test_rows_that_are_the_same_have_no_differences() -> None:
    assert differences(VIEW, ROWS, dict(ROWS)) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({("y", 2): ROWS["y", 2]}, "v in redis lacks 1 rows: ('x', 1)"),
        ({**ROWS, ("z", 3): {"a": "z", "b": 3}}, "v in redis has besides 1 rows: ('z', 3)"),
        (
            {**ROWS, ("x", 1): {"a": "x", "b": 1, "n": 2}},
            "v in redis differs in 1 rows: ('x', 1): n 1, found 2",
        ),
        (
            {**ROWS, ("x", 1): {"a": "x", "b": 1}},
            "v in redis differs in 1 rows: ('x', 1): n 1, found None",
        ),
    ],
)
def test_a_row_that_is_not_the_same_is_told(
    found: dict[tuple[object, ...], dict[str, object]], said: str
) -> None:
    assert differences(VIEW, ROWS, found) == [said]
