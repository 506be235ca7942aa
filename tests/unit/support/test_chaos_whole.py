"""What a whole-path seed of ``make chaos`` draws, and that its comparison objects. No server."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.faults.capture import FAULTS
from tests.chaos.faults.engine import ENGINE_FAULTS, STATE_FAULTS, STEP_FAULTS, VIEW_FAULTS
from tests.chaos.faults.plan import plan
from tests.chaos.faults.step_kills import ALL, Step, replaced
from tests.chaos.faults.stores import APPLY_KILLED, WHOLE_FAULTS, apply_kills, store_kills
from tests.chaos.options import options
from tests.chaos.views.consumer_groups import beyond
from tests.chaos.views.contents import current, differences
from tests.chaos.views.declarations import GROUPED, SEVERAL_ROWS, STORES, Kept, kept
from tests.chaos.views.kinds import KINDS, joins_later, kept_by_database
from views.parse.definition import parse_view

SEEDS = range(3, 300, 3)
MANY_SEEDS = range(3, 1500, 3)
EVERY = {*FAULTS, *WHOLE_FAULTS}
VIEW = Kept("v", "redis", ("a", "b"), "select 1")
ROWS = {("x", 1): {"a": "x", "b": 1, "n": 1}, ("y", 2): {"a": "y", "b": 2}}


def test_every_third_seed_goes_the_whole_path_unless_told_otherwise() -> None:
    assert [seed for seed in range(1, 10) if options(seed).whole] == [3, 6, 9]
    assert not options(3, stores=False).whole
    assert options(1, stores=True).whole
    assert options(1, stores=True)._replace(whole=False, message_bytes=0) == options(1)._replace(
        message_bytes=0
    )


def test_every_fourth_of_these_keeps_its_mirrors_in_delta_unless_told_otherwise() -> None:
    engines = Counter(options(seed).engine for seed in SEEDS)
    assert engines == {"database": 75, "delta": 24}
    assert options(12).engine == "delta"
    assert options(12, engine="database").engine == "database"
    assert options(3, engine="delta").engine == "delta"
    own = sum(options(seed).own_state for seed in SEEDS)
    assert 15 < own < 40
    assert not any(options(seed, engine="delta").own_state for seed in SEEDS)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_database_keeps_a_view_of_each_kind_in_every_store(seed: int) -> None:
    views = kept_by_database("s", seed)
    names = [view.name.removeprefix("s_") for view in views]
    kinds = [kind for kind, of_it in KINDS.items() for name in names if name in of_it]
    assert kinds == list(KINDS)
    assert {view.store for view in views if not view.history} == set(STORES)
    assert {view.history for view in views if view.store == "delta"} >= {"log", "scd2"}
    assert len(names) == len({*names, joins_later("s", seed).name.removeprefix("s_")}) - 1


@pytest.mark.parametrize(
    ("engine", "faults"),
    [
        ("database", {*FAULTS, *WHOLE_FAULTS}),
        ("delta", {*FAULTS, *WHOLE_FAULTS} - {*ENGINE_FAULTS}),
    ],
)
def test_a_whole_path_kills_apply_and_a_store_and_the_rest_draws_every_fault(
    engine: str, faults: set[str]
) -> None:
    drawn = [[step.fault for step in plan(seed, True, engine)] for seed in MANY_SEEDS]
    assert all(APPLY_KILLED in faults for faults in drawn)
    assert all(any(map(store_kills, faults)) for faults in drawn)
    assert all("capture killed" in faults for faults in drawn)
    assert {fault for faults in drawn for fault in faults} == faults


def test_a_seed_of_the_state_database_kills_it_or_apply_at_a_step_and_changes_its_views() -> None:
    drawn = [{step.fault for step in plan(seed, True)} for seed in SEEDS]
    for kind in (STEP_FAULTS, STATE_FAULTS, VIEW_FAULTS):
        assert all(faults & kind.keys() for faults in drawn)


@pytest.mark.parametrize("name", ALL)
def test_each_step_that_apply_may_die_at_is_there(name: str) -> None:
    module, path = ALL[name].method.split(":")
    owner, method = path.split(".")
    assert callable(getattr(getattr(import_module(module), owner), method))


@pytest.mark.parametrize(("store", "dies"), [("redis", True), ("delta", False)])
def test_it_dies_the_time_it_was_told_and_of_the_store_it_was_told(store: str, dies: bool) -> None:
    died: list[int] = []

    class RedisSink:
        __module__ = "jobs.sinks.redis.sink"

    class Keeper:
        store = SimpleNamespace(sink=RedisSink())
        writes = 0

        def write(self) -> None:
            self.writes += 1

    keeper = Keeper()
    step = Step("", behind=True, of_store=True)
    write = replaced(Keeper.write, step, store, 2, lambda: died.append(keeper.writes))
    for _ in range(3):
        write(keeper)
    assert died == ([2] if dies else [])


def test_of_a_write_that_it_dies_amid_half_is_written() -> None:
    written: list[list[int]] = []
    store = SimpleNamespace(write=lambda changes, _progress: written.append(changes))
    keeper = SimpleNamespace(store=store)
    step = Step("", behind=False, half=True)
    write = replaced(lambda *_: None, step, "", 1, lambda: written.append([]))
    write(keeper, [1, 2, 3], "progress")
    write(keeper, [4], "progress")
    assert written == [[1, 2], []]


HISTORY: list[dict[str, Any]] = [
    {"id": 1, "n": 1, "__commit_lsn": 5, "__ordinal": 1, "__op": "r", "__current": False},
    {"id": 2, "n": 1, "__commit_lsn": 7, "__ordinal": 1, "__op": "c", "__current": False},
    {"id": 2, "n": None, "__commit_lsn": 9, "__ordinal": 1, "__op": "d", "__current": False},
    {"id": 1, "n": 2, "__commit_lsn": 9, "__ordinal": 2, "__op": "u", "__current": True},
]


@pytest.mark.parametrize("history", ["log", "scd2"])
def test_of_a_history_the_rows_that_are_there_now_are_compared(history: str) -> None:
    view = Kept("v", "delta", ("id",), "select 1", history)
    assert [(row["id"], row["n"]) for row in current(view, HISTORY)] == [(1, 2)]
    assert len(list(current(view._replace(history=""), HISTORY))) == len(HISTORY)


def test_kills_are_counted_by_what_is_killed() -> None:
    both = {fault for fault in WHOLE_FAULTS if apply_kills(fault) and store_kills(fault)}
    assert both == {
        f"{store} store and apply killed" for store in ("opensearch", "redis", "postgres")
    }
    assert not store_kills("apply killed while the redis store stalls")
    assert not any(apply_kills(fault) or store_kills(fault) for fault in FAULTS)


@pytest.mark.parametrize(
    ("told", "lacks"),
    [
        ([], False),
        ([("a", 0, 3), ("a", 1, 9)], False),  # late news of what the copy has
        ([("a", 0, 3), ("b", 0, 5)], True),
    ],
)
def test_a_copy_lacks_what_groups_are_told_of_records_that_were_not_there_yet(
    told: list[tuple[str, int, int]], lacks: bool
) -> None:
    assert beyond(told, {"a": {0: 7, 1: 9}, "b": {0: 4}}) == lacks


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
