"""A table of history, some of whose events waited as dead letters and were retried: as of any LSN
it is what it had been, had they been applied in their places."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.config import Delta
from jobs.generations.view_state import ViewState
from jobs.sinks.stores import open_sink
from jobs.without_mirrors.dead_letters.bisection import Poison
from jobs.without_mirrors.dead_letters.parking import Parking
from jobs.without_mirrors.dead_letters.retry import attempted
from jobs.without_mirrors.evaluation import Applier, Model, evaluate
from jobs.without_mirrors.late_snapshot_values import apply_records
from tests.support.events.events import Record, event, kafka_frame, truncate
from tests.support.views.histories import as_of, rows_of
from tests.support.views.parked_view import TABLE, KilledError, MemoryBox
from views.parse.definition import parse_view
from views.spark.resolution import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession


class ParkedHistory:
    """The view ``v`` and its dead letters, batch by batch; what is poison is said with each."""

    def __init__(self, spark: SparkSession, root: Path, history: str) -> None:
        self._spark, self._root, self._history = spark, root, history
        definition = parse_view("v", "s", ["id"], "select id, body from t", history)
        self._model = Model(resolve(definition, TABLE), {TABLE.schema_id: TABLE}, True)
        self.box = MemoryBox()
        self._number, self._end = -1, 0
        self._seen = list[Record]()
        self.restart()

    def restart(self) -> None:
        self._applier = self._opened("checkpoint")
        self._parking = Parking("v", self.box, 10, True)
        self._parking.open({"events": {0: self._end}})

    def _opened(self, generation: str) -> Applier:
        lake = Delta(kind="delta", path=str(self._root / "lake"))
        sink = open_sink(lake, "v", self._spark, 5.0, history=self._history)
        created = sink.prepare(self._model.columns, ("id",))
        state = ViewState(self._root, generation)
        return Applier("v", state, sink, created, None, True)

    def apply(self, *records: Record, poison: Iterable[int] = ()) -> None:
        """The next batch of the topic; ``poison`` are offsets."""
        number, end = self._number + 1, self._end + len(records)

        def attempt(flowing: DataFrame) -> None:
            if set(poison) & offsets_of(flowing):
                raise ArithmeticError
            evaluated = partial(evaluate, self._model)
            apply_records(self._model.view, flowing, number, self._applier, evaluated, self._before)
            self.box.kill("after apply")

        def isolate(flowing: DataFrame, error: BaseException, _most: int) -> list[Poison]:
            if isinstance(error, KilledError):
                raise error
            found = set(poison) & offsets_of(flowing)
            return [Poison(f"events-0-{at}", "an overflow") for at in found]

        frame = kafka_frame(self._spark, records, self._end)
        self._parking.through(frame, {"events": {0: end}}, attempt, isolate, lambda *_: True)
        self._number, self._end = number, end
        self._seen += records

    def _before(self) -> DataFrame:
        return kafka_frame(self._spark, self._seen)

    def retry(self) -> None:
        letters = [self.box.whole[id_] for id_ in self.box.letters.open]
        opened = self._opened("of a retry")
        assert attempted(self._spark, self._model, opened, letters, self._before) == {}
        done = [letter.id for letter in letters]
        self.box.letters.settle(done)
        self.restart()

    def waiting(self) -> list[int]:
        return sorted(letter.offset for letter in self.box.letters.open.values())

    def as_of(self, *lsns: int) -> list[dict[Any, str]]:
        rows = rows_of(self._root / "lake" / "v", self._model.columns, self._history)
        return [
            {id_: row["body"] for id_, row in as_of(self._history, rows, lsn).items()}
            for lsn in lsns
        ]


def offsets_of(flowing: DataFrame) -> set[int]:
    return {row.offset for row in flowing.select("offset").collect()}


def put(lsn: int, id_: int = 1) -> Record:
    return event(lsn, 1, {"id": id_, "body": f"of {lsn}"}, "u")


@pytest.mark.parametrize("history", ["log", "scd2"])
def test_a_truncate_stands_between_what_flowed_and_what_was_retried(
    history: str, spark: SparkSession, tmp_path: Path
) -> None:
    view = ParkedHistory(spark, tmp_path, history)
    view.apply(put(20), put(20, 2), truncate(30, 1), put(40), poison=[3])
    waited = view.waiting()
    view.retry()
    assert view.as_of(25, 35, 45) == [{1: "of 20", 2: "of 20"}, {}, {1: "of 40"}]
    assert waited == [3]


def test_what_a_truncate_has_ended_is_not_retried_with_what_came_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = ParkedHistory(spark, tmp_path, "scd2")
    view.apply(put(20), poison=[0])
    view.apply(truncate(30, 1), put(40), put(50), poison=[2])
    waited = view.waiting()
    view.retry()
    assert view.as_of(25, 35, 45, 55) == [{}, {}, {1: "of 40"}, {1: "of 50"}]
    assert waited == [2, 3]


@pytest.mark.parametrize("history", ["log", "scd2"])
def test_retried_between_a_kill_and_the_next_start_they_find_their_places_too(
    history: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The letters that the batch's TRUNCATE has ended were not settled yet."""
    view = ParkedHistory(spark, tmp_path, history)
    view.apply(put(20), poison=[0])
    batch = (truncate(30, 1), put(40), put(50, 2))
    view.box.killing = "after apply"
    with pytest.raises(KilledError):
        view.apply(*batch, poison=[2])
    view.box.killing = ""
    assert view.waiting() == [0, 2]
    view.restart()
    view.retry()
    view.apply(*batch)
    assert view.waiting() == []
    wanted = [{1: "of 20"}, {}, {1: "of 40"}, {1: "of 40", 2: "of 50"}]
    assert view.as_of(25, 35, 45, 55) == wanted
