"""Groups are committed on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from cdc.errors import LogError
from cdc.kafka.broker import Offsets
from jobs.run.views.group_commits import GroupCommits
from jobs.run.views.group_offsets import GroupOffsets
from tests.support.waiting import wait_until

TOPIC = "s.public.a"


class Kafka:
    """A commit stands until it is let go; one may be refused for good."""

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.began, self.goes_on = threading.Event(), threading.Event()
        self.refuses = False

    def commit_group(self, _group: str, offsets: Offsets) -> None:
        self.began.set()
        assert self.goes_on.wait(60)
        if self.refuses:
            raise LogError("Kafka refuses it")
        self.committed.append(offsets[TOPIC][0])


@contextmanager
def committing(kafka: Kafka) -> Iterator[tuple[GroupOffsets, GroupCommits]]:
    reach = GroupOffsets(cast(Any, kafka), lambda _: {})
    commits = GroupCommits(reach)
    reach.add(1, [TOPIC])
    reach.show(1, "v")
    commits.start()
    try:
        yield reach, commits
    finally:
        kafka.goes_on.set()
        commits.end()


def come_to(reach: GroupOffsets, batch: int) -> None:
    reach.batch(batch, {TOPIC: {0: batch}})
    reach.reached(1, batch)


def test_a_commit_that_stands_holds_up_nobody_and_the_newest_offsets_are_next() -> None:
    kafka = Kafka()
    with committing(kafka) as (reach, commits):
        come_to(reach, 1)
        assert kafka.began.wait(60)
        for batch in (2, 3, 4):
            come_to(reach, batch)
            commits.raise_fault()
        assert kafka.committed == []
        kafka.goes_on.set()
        wait_until(lambda: len(kafka.committed) == 2, "the commit behind it")
        come_to(reach, 5)
    assert kafka.committed[:2] == [1, 4]
    assert kafka.committed[-1] == 5, "the end commits what is not yet"


def test_what_is_refused_for_good_ends_the_process_that_asks() -> None:
    kafka = Kafka()
    kafka.refuses = True
    kafka.goes_on.set()
    with committing(kafka) as (reach, commits):
        commits.raise_fault()
        come_to(reach, 1)
        commits._thread.join(60)
        with pytest.raises(LogError, match="Kafka refuses it"):
            commits.raise_fault()
    never_started = GroupCommits(reach)
    never_started.end()
