"""Building generations of a view over a real Kafka and a real store. How each store fills, shows
and drops them: ``tests/integration/jobs/sinks/test_generations.py``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from bootstrap import switch as switching
from bootstrap.build import build
from bootstrap.build_parts import Kit
from bootstrap.switch import switch
from cdc.errors import HeadwaterError, RetryableError, ViewError
from cdc.topics import view_group
from jobs.generations.generation_record import Generations
from jobs.generations.last_error import noted, stopped
from jobs.generations.view_locks import turn
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.schemas_topic import read_versions
from jobs.without_mirrors.views import apply_views
from tests.support.events.written_topics import row
from tests.support.views.bootstraps import ALL, Setting
from tests.support.waiting import wait_until
from verification.view_positions import unapplied
from views.parse.definition import parse_view
from views.spark.resolution import resolve

SHOUTED = "select id, upper(body) as body from t"


def rows(count: int, body: str) -> list[dict[str, Any]]:
    return [row(i, f"{body} {i}") for i in range(count)]


def test_a_view_is_built_from_a_snapshot_though_kafka_has_no_history(cached: Setting) -> None:
    table = cached.table
    table.write(*rows(50, "old"))
    table.forget_history()
    table.write(row(1, "before the snapshot"))
    table.delete(2)

    def while_read() -> None:
        table.write(row(3, "during it"), row(100, "new"))
        table.delete(4)

    cached.snapshots.while_read = while_read
    built = build(cached.kit())
    assert (built.generation, built.rows, built.live) == (1, 49, True)
    assert cached.shown() == cached.expected()
    assert cached.snapshots.discarded == cached.snapshots.started
    table.write(row(5, "after it"))
    table.delete(6)
    cached.apply_now()
    assert cached.shown() == cached.expected()


def test_what_had_ended_a_view_before_it_was_built_is_told_no_more(cached: Setting) -> None:
    cached.table.write(*rows(3, "a"))
    directory = cached.kit().directory
    stream = turn(directory, "stream", 0)
    with suppress(ViewError), stream, noted(directory, cached.view, lambda: False):
        raise ViewError("its SQL was refused")
    assert stopped(directory) is not None
    built = build(cached.kit())
    assert stopped(directory) is None
    assert built.applied is False  # and this is told
    with turn(directory, "waits", 0):
        assert build(cached.kit()).applied


def test_a_rebuilt_view_is_another_and_the_old_one_can_come_back(cached: Setting) -> None:
    table = cached.table
    table.write(*rows(20, "a"))
    cached.apply_now()
    before = cached.shown()
    cached.declare(SHOUTED)
    seen: list[dict[Any, Any]] = []
    cached.snapshots.while_read = lambda: seen.append(cached.shown())
    build(cached.kit())
    assert seen == [before]
    assert cached.shown() == {id_: body.upper() for id_, body in before.items()}
    table.write(row(3, "on"))
    cached.apply_now()
    assert cached.shown()[3] == "ON"
    group, topics = view_group(cached.view), [table.log.topic]
    newest = cached.broker.committed(group, topics)
    killed = cached.kit(KillingKit, left=[1])
    with turn(killed.directory, "build", 30), pytest.raises(KilledError):
        switch(killed, 1)
    assert cached.shown()[3] == "ON"
    went_back = cached.broker.committed(group, topics)
    assert unapplied(newest, went_back), "readers may see the old rows from here on"
    cached.apply_now()
    assert cached.broker.committed(group, topics) == newest
    switch_back(cached, 1)
    assert cached.shown() == before
    assert cached.broker.committed(group, topics) == went_back
    cached.declare(ALL)
    cached.apply_now()
    assert cached.broker.committed(group, topics) == newest
    assert cached.shown() == cached.expected()
    found = cached.kit().read()
    assert [one.number for one in found.retired] == [2]


def test_the_oldest_generations_are_dropped_by_policy(cached: Setting) -> None:
    cached.table.write(*rows(5, "a"))
    cached.declare(ALL, keep_generations=1)
    for _ in range(3):
        build(cached.kit())
    assert sorted(cached.kit().read().of) == [2, 3]
    cached.declare(ALL, keep_generations=0)
    build(cached.kit())
    assert sorted(cached.kit().read().of) == [4]
    assert cached.shown() == cached.expected()


def switch_back(setting: Setting, number: int) -> None:
    kit = setting.kit()
    with turn(kit.directory, "build", 30):
        switch(kit, number)


class KilledError(BaseException):
    """The process is gone."""


@dataclass(frozen=True, slots=True)
class KillingKit(Kit):
    """Is killed when it has written down so many steps."""

    left: list[int] = field(default_factory=list)

    def write(self, generations: Generations) -> Generations:
        Kit.write(self, generations)
        self.left[0] -= 1
        if self.left[0] == 0:
            raise KilledError
        return generations


def test_killed_after_any_step_it_goes_on_from_there(
    cached: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switching, "_undo", lambda _kit: None)  # the dead undo nothing
    table = cached.table
    table.write(*rows(20, "old"))
    cached.apply_now()
    kills, done = 0, False
    while not done:
        kills += 1
        before = cached.shown()
        try:
            build(cached.kit(KillingKit, left=[1 if kills < 12 else 99]))
            done = True
        except KilledError:
            found = cached.kit().read()
            if found.live is not None and found.live.number == 1 and found.switching is None:
                assert cached.shown() == before
        table.write(row(kills, "between"))
    assert kills > 5
    assert len(cached.snapshots.started) == 1
    cached.apply_now()
    assert cached.shown() == cached.expected()


@pytest.mark.parametrize("told", [False, True])
def test_apply_settles_a_switch_whose_builder_is_dead(cached: Setting, told: bool) -> None:
    cached.table.write(*rows(20, "old"))
    cached.apply_now()
    cached.declare(SHOUTED)
    kit = cached.kit()
    with pytest.raises(RetryableError):
        _stopped_before_the_switch(cached)
    kit.write(kit.read().intending(2, ""))
    if told:
        kit.stored(kit.read().of[2]).switch(2)
    cached.apply_now()
    live = kit.read().live
    assert live is not None
    assert live.number == (2 if told else 1)
    shout = str.upper if told else str
    assert cached.shown() == {id_: shout(body) for id_, body in cached.expected().items()}


def _stopped_before_the_switch(setting: Setting) -> None:
    def step(what: str) -> None:
        if what == "applying the stream":
            setting.stopping.set()

    kit = setting.kit()
    object.__setattr__(kit, "step", step)
    try:
        build(kit)
        raise RetryableError("held")
    finally:
        setting.stopping.clear()


def test_a_running_apply_goes_on_with_the_new_generation(cached: Setting) -> None:
    table = cached.table
    table.write(*rows(20, "a"))
    stopping = threading.Event()
    failed: dict[str, HeadwaterError] = {}
    old = cached.config

    def run() -> None:
        failed.update(apply_views(cached.spark, old, [cached.view], stopping))

    applying = threading.Thread(target=run)
    applying.start()
    try:
        group = view_group(cached.view)
        wait_until(lambda: _applied(cached, group), "the first rows")
        cached.declare(SHOUTED)
        build(cached.kit())
        table.write(row(1, "changed"), row(30, "new"))
        table.delete(2)
        shouted = {id_: body.upper() for id_, body in cached.expected().items()}
        wait_until(lambda: cached.shown() == shouted, "the new generation to be kept")
        switch_back(cached, 1)
        wait_until(lambda: cached.shown() == cached.expected(), "the old one to catch up")
    finally:
        stopping.set()
        applying.join(120)
    assert not applying.is_alive()
    assert failed == {}


def _applied(setting: Setting, group: str) -> bool:
    topic = setting.table.log.topic
    ends = setting.broker.end_offsets([topic])
    return setting.broker.committed(group, [topic]) == ends


def test_two_versions_side_by_side_and_the_switch_later(cached: Setting) -> None:
    cached.table.write(*rows(20, "a"))
    cached.apply_now()
    before = cached.shown()
    cached.declare(SHOUTED)
    held = threading.Thread(target=lambda: build(cached.kit(), hold=True))
    held.start()
    try:
        wait_until(lambda: any("held" in step for step in cached.steps), "the build to be held")
        cached.table.write(row(1, "changed"))
        sink = open_sink(cached.config.stores["s"], cached.view, cached.spark, 60.0, 2)
        wait_until(_holds(cached, sink, "CHANGED"), "the change beside the live view")
        assert cached.shown() == before
    finally:
        cached.stopping.set()
        held.join(120)
    cached.stopping.clear()
    assert build(cached.kit()).live
    assert cached.shown()[1] == "CHANGED"


def _holds(setting: Setting, sink: Any, body: str) -> Callable[[], bool]:
    versions = read_versions(setting.broker, setting.table.log.source, "public", "t")
    definition = parse_view(setting.view, "s", ("id",), SHOUTED)
    sink.prepare(columns_of(resolve(definition, list(versions.values())[-1])), ("id",))
    return lambda: any(found.values["body"] == body for found in sink.scan())


def test_a_build_of_another_declaration_starts_over(cached: Setting) -> None:
    cached.table.write(*rows(5, "a"))
    with pytest.raises(KilledError):
        build(cached.kit(KillingKit, left=[3]))
    cached.declare(SHOUTED)
    build(cached.kit())
    assert cached.snapshots.discarded == ["1", "2"]
    assert cached.shown() == {id_: body.upper() for id_, body in cached.expected().items()}


def test_an_apply_that_starts_while_a_view_is_repaired_waits(cached: Setting) -> None:
    cached.table.write(*rows(5, "a"))
    cached.declare(ALL, retry_s=1)
    directory = cached.kit().directory
    applying = threading.Thread(target=cached.apply_now)
    with turn(directory, "build", 30), turn(directory, "asked", 30), turn(directory, "stream", 30):
        applying.start()
        applying.join(4)  # longer than it would wait for another apply
        assert applying.is_alive()
    applying.join(120)
    assert not applying.is_alive()
    assert cached.shown() == cached.expected()
