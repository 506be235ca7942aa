"""How far views are, and what their groups are told, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from cdc.errors import RetryableError
from cdc.kafka.broker import Offsets
from jobs.run.views.group_offsets import GroupOffsets
from jobs.without_mirrors.group_offsets import AGAIN_S


class Groups:
    """What was committed, by group; one call fails if it is to."""

    def __init__(self) -> None:
        self.held: dict[str, Offsets] = {}
        self.away = False
        self.has_members = ""

    def commit_group(self, group: str, offsets: Offsets) -> None:
        if self.away or group == self.has_members:
            raise RetryableError("away")
        self.held[group] = offsets


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

    groups.commit_group = slow  # type: ignore[method-assign]
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
