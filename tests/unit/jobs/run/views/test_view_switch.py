"""A view's group never says more than what readers see holds, wherever a switch is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import View
from cdc.errors import RetryableError
from cdc.kafka.broker import Offsets
from jobs.run.builds import view_build
from jobs.run.builds.builder import Generation
from jobs.run.builds.view_build import ViewBuild
from jobs.run.views import generation_registry, view_registry
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.group_offsets import GroupOffsets
from jobs.run.views.view_entry import ViewEntry
from jobs.run.views.view_registry import ViewRegistry

TOPIC, GROUP = "s.public.a", "headwater.v"


class World:
    """Two generations of a view, what their stores hold, which one readers see, and its group.
    Batch n ends at offset n. ``reach`` is committed, as by the engine, at each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.shown, self.steps = 120, 1, list[str]()
        self.holds, self.kept, self.group = {1: 110, 2: 106}, {1, 2}, 0
        self.away, self.refused = False, RetryableError("the store is away")
        self.refuses = self.stands = False
        self.ended: list[int] = []
        self.reach = GroupOffsets(cast(Any, self), lambda _: {})
        for batch in range(200):
            self.reach.batch(batch, {TOPIC: {0: batch}})
        parts = cast(Any, SimpleNamespace(config=SimpleNamespace(apply=SimpleNamespace(clock_s=1))))
        tables = cast(Any, SimpleNamespace(topic=lambda _: TOPIC))
        self.generations = GenerationRegistry(parts, tables, self.reach, changing, lambda: None)
        self.generations.lanes = cast(Any, self)
        monkeypatch.setattr(view_registry, "OtherHistories", lambda *_: None)
        monkeypatch.setattr(view_registry, "show_feed", lambda *_: self.step("feed"))
        monkeypatch.setattr(view_registry, "drop_expired", lambda *_: self.step("expired"))
        monkeypatch.setattr(generation_registry, "make_up", lambda *_: self.made_up())
        monkeypatch.setattr(generation_registry, "note_loaded", lambda *_: None)
        monkeypatch.setattr(view_build, "read_progress", lambda _: SimpleNamespace(batch=self.now))
        self.views = ViewRegistry(parts, self.generations)
        monkeypatch.setattr(self.views, "_switch", self.switch)
        self.one, self.two = generation(1), generation(2)
        self.entry = ViewEntry("v", cast(Any, None))
        for one in (self.one, self.two):
            self.generations.begun(one)
            self.reach.reached(one.record.id, self.holds[one.record.id])
        self.generations.shown(self.one)
        self.entry.live = self.one
        self.step("before")

    def step(self, name: str) -> None:
        """The group says no more than what readers see holds, before and behind a commit."""
        self.steps.append(name)
        for _ in range(2):
            assert self.group <= self.holds[self.shown], self.steps
            self.reach.commit()

    def made_up(self) -> int:
        self.step("made up")
        return self.now

    # -- Kafka

    def commit_group(self, group: str, offsets: Offsets, *_: object) -> None:
        if self.away:
            raise RetryableError("Kafka is away")
        assert group == GROUP
        self.group = offsets[TOPIC][0]

    def committed(self, _group: str, _topics: object) -> Offsets:
        return {TOPIC: {0: self.group}}

    def reached(self, _group: str, _topics: object, _note: str) -> Offsets:
        return {}

    def beginning_offsets(self, _topics: object) -> Offsets:
        return {TOPIC: {0: 3}}

    def end_offsets(self, _topics: object) -> Offsets:
        return {TOPIC: {0: self.now}}

    # -- lanes and the store

    def detach(self, one: Generation) -> Any:
        self.kept.discard(one.record.id)
        self.ended.append(one.record.id)
        self.step(f"detach {one.record.id}")
        return SimpleNamespace(close=lambda: self.step("close"))

    def attach(self, one: Generation, _keeper: object) -> None:
        self.kept.add(one.record.id)
        self.step(f"attach {one.record.id}")

    def add(self, one: Generation, *_: object) -> None:
        self.attach(one, None)

    def remove(self, one: Generation) -> None:
        self.kept.discard(one.record.id)
        while self.ended:  # a lane may tell of a turn when its keeper is detached already
            id_ = self.ended.pop()
            self.reach.reached(id_, self.holds[id_])
        self.step(f"remove {one.record.id}")

    def hurry(self, one: Generation) -> None:
        self.step("hurry")
        if not self.stands:
            self.turn(one)

    def turn(self, one: Generation) -> None:
        assert one.record.id in self.kept
        self.holds[one.record.id] = self.now
        self.reach.reached(one.record.id, self.now)
        self.step(f"turn {one.record.id}")

    def is_idle(self, _one: Generation) -> bool:
        return False

    def switch(self, _entry: ViewEntry, number: int) -> None:
        self.step("switch")
        assert not self.kept & {1, 2}
        if self.refuses:
            raise self.refused
        self.shown = number
        self.step("switched")

    # -- what is done

    def build(self) -> None:
        parts = SimpleNamespace(server=SimpleNamespace(connect=lambda **_: SimpleNamespace(
            close=lambda: None)))  # fmt: skip
        view = cast(View, None)
        build = ViewBuild(cast(Any, parts), self.generations, "v", view, lambda *_: None)
        self.show(self.two, partial(build._reach_live, self.two), missed=False)

    def roll_back(self) -> None:
        """To the first one, which is opened again."""
        self.one = generation(1)
        self.generations.begun(self.one)
        self.show(self.one, partial(self.reach.go_back, 1, "v"), missed=True)

    def show(self, one: Generation, ready: Callable[[], None], missed: bool) -> None:
        self.views.show(cast(Any, None), self.entry, one, ready, missed)
        self.step("shown")


@contextmanager
def changing() -> Iterator[Any]:
    yield None


def generation(id_: int) -> Generation:
    record = SimpleNamespace(id=id_, name="v", generation=id_)
    kept = SimpleNamespace(plan=SimpleNamespace(reads={"public.a": ()}))
    return cast(Generation, SimpleNamespace(record=record, history=None, kept=kept))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_group_says_no_more_than_readers_see_through_builds_and_rollbacks(world: World) -> None:
    assert world.group == 110
    world.holds[1] = 115  # a turn that is not told yet
    world.build()
    assert (world.shown, world.holds[2], world.group) == (2, 120, 120)
    world.now = 150
    world.turn(world.two)
    assert world.group == 150
    world.now = world.holds[2] = 155
    world.roll_back()
    assert (world.shown, world.holds[1], world.group) == (1, 115, 3)
    world.turn(world.one)
    assert world.group == 155


def test_a_build_that_is_not_shown_leaves_the_group_to_the_live_generation(world: World) -> None:
    world.refuses = True
    with pytest.raises(RetryableError, match="the store is away"):
        world.build()
    assert world.kept == {1}
    world.now = 130
    world.turn(world.one)
    assert (world.shown, world.group) == (1, 130)


def test_a_build_that_does_not_come_to_the_live_generation_is_not_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_build, "_SWITCH_S", 0.0)
    world.stands = True
    with pytest.raises(RetryableError, match="the new generation lacked changes of the live one"):
        world.build()
    assert (world.shown, world.kept, world.group) == (1, {1, 2}, 110)
    world.turn(world.one)
    assert world.group == 120


def test_a_rollback_that_the_group_cannot_be_told_of_is_none(world: World) -> None:
    world.build()
    world.away = True
    with pytest.raises(RetryableError, match="Kafka is away"):
        world.roll_back()
    assert (world.shown, world.kept) == (2, {2})
    world.away, world.refuses = False, True
    with pytest.raises(RetryableError, match="the store is away"):
        world.roll_back()
    assert (world.shown, world.kept, world.group) == (2, {2}, 120)
