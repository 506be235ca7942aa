"""Poison of a view that takes every event of a key, not its last one in a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from cdc.lsn import Position
from jobs.sinks.row_errors import UNKNOWN
from jobs.without_mirrors.dead_letters.bisection import Poison
from jobs.without_mirrors.dead_letters.parking import Parking
from tests.support.events.events import Record, delete, event, kafka_frame, truncate
from tests.support.views.parked_view import MemoryBox

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Events:
    """The topic ``events``, of whose records some offsets are poison."""

    def __init__(self, spark: SparkSession, *records: Record, once: int = 0) -> None:
        self._spark, self._records = spark, records
        self.box = MemoryBox()
        self._parking = Parking("v", self.box, 10, True)
        self._parking.open({"events": {0: 0}}, {"events": {0: once}})

    def flowed(
        self,
        first: int,
        end: int,
        poison: Iterable[int] = (),
        cause: str = "an overflow",
        news_from: int = 0,
    ) -> list[int]:
        """The offsets that a batch, of ``first`` up to ``end``, is applied with."""

        def attempt(flowing: DataFrame) -> list[int]:
            found = sorted(row.offset for row in flowing.select("offset").collect())
            if set(found) & set(poison):
                raise ArithmeticError
            return found

        def isolate(flowing: DataFrame, _error: BaseException, _most: int) -> list[Poison]:
            found = {row.offset for row in flowing.select("offset").collect()} & set(poison)
            return [Poison(f"events-0-{offset}", cause) for offset in sorted(found)]

        def is_news(_topic: str, position: Position, _deletes: bool) -> bool:
            return position.commit_lsn >= news_from

        frame = kafka_frame(self._spark, self._records[first:end], first)
        return self._parking.through(frame, {"events": {0: end}}, attempt, isolate, is_news)

    def waiting(self) -> list[int]:
        return sorted(letter.offset for letter in self.box.letters.open.values())


def put(lsn: int, id_: int = 1) -> Record:
    return event(lsn, 1, {"id": id_}, "u")


def gone(lsn: int) -> Sequence[Record]:
    """A delete, and its tombstone."""
    return delete(lsn, 1, {"id": 1})


@pytest.fixture
def story(spark: SparkSession) -> Events:
    return Events(spark, put(5), put(8), put(9), *gone(10), put(20), put(21, 2))


def test_what_the_rows_end_is_behind_in_its_batch_parks_nothing(story: Events) -> None:
    """As if the delete had come in the next batch: nothing of before it is in the history."""
    flowed = story.flowed(0, 7, [1])
    assert [offset for offset in flowed if offset != 4] == [3, 5, 6]
    assert (story.waiting(), story.box.written) == ([], [])


def test_cut_between_they_come_to_the_same(story: Events) -> None:
    assert story.flowed(0, 3, [1]) == []
    assert story.waiting() == [0, 1, 2]
    assert [offset for offset in story.flowed(3, 7) if offset != 4] == [3, 5, 6]
    assert story.waiting() == []


def test_a_truncate_of_its_batch_ends_it_too(spark: SparkSession) -> None:
    story = Events(spark, put(8), put(20), truncate(12, 1), put(7, 2))
    assert story.flowed(0, 4, [0]) == [1, 2, 3]
    assert story.waiting() == []


def test_poison_behind_the_rows_end_holds_up_nothing_of_before_it(story: Events) -> None:
    assert [offset for offset in story.flowed(0, 7, [5]) if offset != 4] == [0, 1, 2, 3, 6]
    assert story.waiting() == [5]


def test_what_waits_is_over_at_the_rows_end_also_where_poison_stands_behind_that(
    story: Events,
) -> None:
    assert story.flowed(0, 2, [1]) == []
    assert [offset for offset in story.flowed(2, 7, [5]) if offset != 4] == [3, 6]
    assert story.waiting() == [5]
    assert sorted(story.box.whole) == [f"events-0-{offset}" for offset in (0, 1, 2, 5)]


def test_a_delete_that_is_poison_itself_ends_nothing(story: Events) -> None:
    assert story.flowed(0, 2, [1]) == []
    assert [offset for offset in story.flowed(2, 7, [3]) if offset != 4] == [6]
    assert story.waiting() == [0, 1, 2, 3, 5]


def test_what_is_no_event_waits_in_the_life_it_stands_in(spark: SparkSession) -> None:
    odd: Record = (b'{"id":1}', b"odd")
    story = Events(spark, put(5), *gone(10), odd, truncate(15, 1), put(20))
    assert [offset for offset in story.flowed(0, 6, [3]) if offset != 2] == [0, 1, 4]
    assert story.waiting() == [3, 5]


def test_what_is_no_news_takes_no_news_with_it(spark: SparkSession) -> None:
    story = Events(spark, put(5), put(8), put(90))
    assert story.flowed(0, 3, [1], news_from=30) == [0, 2]
    assert story.waiting() == []


def test_of_a_replay_only_what_came_before_is_passed_over(spark: SparkSession) -> None:
    """A value is missing that the store had when the event was applied: news go on."""
    story = Events(spark, put(5), put(8), put(90), once=2)
    assert story.flowed(0, 3, [1], UNKNOWN) == [0, 2]
    assert story.waiting() == []
    later = Events(spark, put(5), put(8), put(90), once=2)
    assert later.flowed(0, 3, [1, 2], UNKNOWN) == []
    assert later.waiting() == [0, 2]


def test_what_fails_without_its_poison_is_a_fault(spark: SparkSession) -> None:
    story = Events(spark, put(5), put(8), *gone(9))

    def attempt(_flowing: DataFrame) -> None:
        raise ArithmeticError

    frame = kafka_frame(spark, story._records)
    with pytest.raises(ArithmeticError):
        story._parking.through(
            frame,
            {"events": {0: 4}},
            attempt,
            lambda *_: [Poison("events-0-0", "an overflow")],
            lambda *_: True,
        )
    assert story.waiting() == []
