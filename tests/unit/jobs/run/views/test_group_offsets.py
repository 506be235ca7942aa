"""How far views are, and what their groups are told, without Kafka."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from cdc.errors import RetryableError, StateError
from cdc.kafka.broker import Offsets
from jobs.run.views.group_offsets import WENT_BACK, GroupOffsets, known_offsets
from jobs.state.server.identity import refuse_older_copy
from jobs.without_mirrors.group_offsets import AGAIN_S
from verification.view_positions import unapplied


class Groups:
    """What was committed, by group, and how far each was that went back; one call fails if it is
    to. Topics begin and end somewhere."""

    def __init__(self) -> None:
        self.held: dict[str, Offsets] = {}
        self.were: dict[str, Offsets] = {}
        self.away = False
        self.has_members = ""
        self.begins: Offsets = {}
        self.ends: Offsets = {}

    def commit_group(
        self, group: str, offsets: Offsets, note: str = "", reached: Offsets | None = None
    ) -> None:
        if self.away or group == self.has_members:
            raise RetryableError("away")
        self.held[group] = offsets
        self.were[group] = (reached or {}) if note == WENT_BACK else {}

    def committed(self, group: str, topics: Collection[str]) -> Offsets:
        return {topic: of for topic, of in self.held.get(group, {}).items() if topic in topics}

    def reached(self, group: str, topics: Collection[str], note: str) -> Offsets:
        assert note == WENT_BACK
        return {topic: of for topic, of in self.were.get(group, {}).items() if topic in topics}

    def beginning_offsets(self, topics: Collection[str]) -> Offsets:
        return {topic: self.begins[topic] for topic in topics}

    def end_offsets(self, topics: Collection[str]) -> Offsets:
        return {topic: self.ends[topic] for topic in topics}


class Now:
    """A clock that stands."""

    at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


def older(batches: Sequence[int]) -> dict[int, Offsets]:
    return {batch: {"s.public.a": {0: 1}} for batch in batches if batch == 3}


def opened() -> tuple[GroupOffsets, Groups]:
    groups = Groups()
    reach = GroupOffsets(cast(Any, groups), older)
    reach.add(1, ["s.public.a"])
    reach.show(1, "v")
    return reach, groups


def test_a_group_is_committed_at_the_offsets_of_its_batch_and_of_its_topics() -> None:
    reach, groups = opened()
    reach.batch(8, {"s.public.a": {0: 10, 1: 4}, "s.public.b": {0: 7}})
    reach.commit()
    assert groups.held == {}
    reach.reached(1, 8)
    reach.commit()
    assert groups.held == {"headwater.v": {"s.public.a": {0: 10, 1: 4}}}


def test_a_batch_of_an_earlier_process_is_asked_for() -> None:
    reach, groups = opened()
    reach.reached(1, 3)
    reach.commit()
    assert groups.held["headwater.v"] == {"s.public.a": {0: 1}}


def test_nothing_goes_back_and_what_failed_is_committed_next() -> None:
    reach, groups = opened()
    reach.batch(8, {"s.public.a": {0: 10}})
    reach.reached(1, 8)
    reach.reached(1, 5)
    groups.away = True
    reach.commit()
    groups.away = False
    reach.commit()
    assert groups.held["headwater.v"] == {"s.public.a": {0: 10}}
    assert reach.of(1) == 8


@pytest.mark.parametrize("views", [1, 10, 40])
def test_a_group_is_committed_at_once_and_rests_the_longer_the_more_there_are(views: int) -> None:
    reach, groups = opened()
    now = reach.clock = Now()
    for other in range(1, views):
        reach.add(1 + other, ["s.public.a"])
        reach.show(1 + other, f"v{other}")
    reach.add(100, ["s.public.a"])  # readers do not see it: it has no group
    for number in (8, 9, 10):
        reach.batch(number, {"s.public.a": {0: number}})
    rest_s = min(views / 20, 1.0)
    for number, at_s, held in ((8, 5.0, 8), (9, 4.99 + rest_s, 8), (10, 5.0 + rest_s, 10)):
        now.at_s = at_s
        reach.reached(1, number)
        reach.commit(20.0)
        assert groups.held["headwater.v"] == {"s.public.a": {0: held}}


def test_a_group_is_committed_each_day_so_that_kafka_does_not_forget_it() -> None:
    reach, groups = opened()
    now = reach.clock = Now()
    reach.commit()
    assert groups.held == {}
    reach.batch(8, {"s.public.a": {0: 10}})
    reach.reached(1, 8)
    for at_s, committed in ((0.0, True), (AGAIN_S - 1, False), (AGAIN_S, True)):
        groups.held.clear()
        now.at_s = at_s
        reach.commit(1.0)
        assert bool(groups.held) is committed, at_s


def test_a_group_that_is_refused_is_told_once_and_keeps_no_other_from_its_commit() -> None:
    reach, groups = opened()
    groups.has_members = "headwater.v"
    reach.add(2, ["s.public.a"])
    reach.show(2, "w")
    reach.batch(8, {"s.public.a": {0: 10}})
    for view in (1, 2):
        reach.reached(view, 8)
    with capture_logs() as lines:
        reach.commit()
        reach.commit()
    assert [line["group"] for line in lines] == ["headwater.v"]
    assert groups.held == {"headwater.w": {"s.public.a": {0: 10}}}
    groups.has_members = ""
    reach.commit()
    assert groups.held["headwater.v"] == {"s.public.a": {0: 10}}


def test_the_lowest_is_of_all_views() -> None:
    reach, _ = opened()
    assert reach.lowest() == -1
    reach.reached(1, 8)
    reach.add(2, ["s.public.b"])
    assert reach.lowest() == -1
    reach.remove(2)
    assert reach.lowest() == 8


def test_a_generation_that_readers_do_not_see_has_no_group() -> None:
    reach, groups = opened()
    reach.add(2, ["s.public.a"])
    reach.batch(8, {"s.public.a": {0: 10}})
    reach.reached(2, 8)
    reach.commit()
    assert groups.held == {}
    reach.show(2, "w")
    reach.commit()
    assert groups.held == {"headwater.w": {"s.public.a": {0: 10}}}


def test_a_group_whose_coordinator_is_away_keeps_no_other_from_its_commits() -> None:
    groups, now = Groups(), Now()
    reach = GroupOffsets(cast(Any, groups), older, now)

    def slow(group: str, offsets: Offsets) -> None:
        if group == "headwater.v":
            now.at_s += 15
            raise RetryableError("no coordinator answers")
        groups.held[group] = offsets

    groups.commit_group = slow  # type: ignore[assignment,method-assign]
    for id_, view in enumerate("vwx"):
        reach.add(id_, ["s.public.a"])
        reach.show(id_, view)
    for batch in (1, 2, 3):
        reach.batch(batch, {"s.public.a": {0: batch}})
        for id_ in range(3):
            reach.reached(id_, batch)
        now.at_s += 1
        reach.commit(20.0)
    assert groups.held == {
        "headwater.w": {"s.public.a": {0: 3}},
        "headwater.x": {"s.public.a": {0: 3}},
    }


def test_a_group_that_went_back_waits_in_each_partition_and_tells_of_an_older_copy() -> None:
    reach, groups = opened()
    topic, group = "s.public.a", "headwater.v"
    groups.begins = {topic: {0: 3, 1: 7, 2: 0}}
    groups.ends = {topic: {0: 12, 1: 7, 2: 0}}
    held = {topic: {0: 10, 1: 7, 2: 0}}
    reach.batch(8, held)
    reach.reached(1, 8)
    reach.commit()
    reach.hide(1)
    for _ in range(2):  # also where it went back already
        reach.go_back(1, "v")
        # Of the second one all records have expired, the third never had one.
        assert groups.held[group] == {topic: {0: 3, 1: 6, 2: 0}}
        assert [one.partition for one in unapplied(held, groups.held[group])] == [0, 1]
        furthest, _ = known_offsets(cast(Any, groups), group, [topic])
        assert furthest == held
    with pytest.raises(StateError, match="an older copy: it lacks 2 records"):
        refuse_older_copy({topic: {0: 8, 1: 7, 2: 0}}, furthest, {})
    reach.show(1, "v")
    reach.commit()
    assert known_offsets(cast(Any, groups), group, [topic]) == (held, held)


def test_offsets_of_a_topic_that_was_made_anew_are_not_noted() -> None:
    reach, groups = opened()
    topic, group = "s.public.a", "headwater.v"
    groups.begins, groups.ends = {topic: {0: 0}}, {topic: {0: 5}}
    groups.held[group] = {topic: {0: 10, 1: 4}}
    reach.go_back(1, "v")
    assert groups.held[group] == {topic: {0: 0}}
    assert groups.were[group][topic].get(0) is None


def test_a_group_whose_view_goes_while_another_is_committed_is_left_alone() -> None:
    reach, groups = opened()
    reach.batch(8, {"s.public.a": {0: 10}})
    for id_, view in ((2, "dropped"), (3, "hidden"), (4, "kept")):
        reach.add(id_, ["s.public.a"])
        reach.show(id_, view)
    for id_ in (1, 2, 3, 4):
        reach.reached(id_, 8)
    began, goes_on, commit = threading.Event(), threading.Event(), groups.commit_group

    def slow(group: str, offsets: Offsets) -> None:
        if group == "headwater.v":
            began.set()
            assert goes_on.wait(60)
        commit(group, offsets)

    groups.commit_group = slow  # type: ignore[assignment,method-assign]
    committing = threading.Thread(target=reach.commit)
    committing.start()
    assert began.wait(60)
    for id_ in (1, 2):
        reach.remove(id_)

    def settle() -> None:
        reach.hide(3)
        reach.settle()

    settled = threading.Thread(target=settle)
    settled.start()
    settled.join(0.05)
    assert settled.is_alive(), "the commit that is under way is waited for"
    goes_on.set()
    settled.join(60)
    committing.join(60)
    groups.held.pop("headwater.v")
    groups.held.pop("headwater.hidden", None)  # it may have been quicker
    assert groups.held == {"headwater.kept": {"s.public.a": {0: 10}}}
    reach.commit()
    assert groups.held == {"headwater.kept": {"s.public.a": {0: 10}}}
