"""A view of one table in memory, with its dead letters in memory, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc.lsn import Position
from jobs.generations.declaration import declared
from jobs.generations.view_state import Beginning, open_state
from jobs.without_mirrors.dead_letters.bisection import Poison, isolate
from jobs.without_mirrors.dead_letters.letter import Letter, Letters
from jobs.without_mirrors.dead_letters.parking import Parking
from jobs.without_mirrors.evaluation import Applier, Model, evaluate
from jobs.without_mirrors.late_snapshot_values import apply_records
from tests.support.events.events import Record, kafka_frame
from tests.support.views.recording_sink import RecordingSink
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = TableVersion(
    "0" * 16,
    "public",
    "t",
    (TableColumn("id", INT4), TableColumn("body", TEXT), TableColumn("n", INT4)),
    ("id",),
)
SQL = "select id, body, 2147483647 - n as m from t"
"""Overflows where ``n`` is negative."""


@cache
def model_of(sql: str) -> Model:
    """Of the view ``v`` over ``TABLE``; made once in a run, which has one JVM."""
    return Model(resolve(parse_view("v", "s", ["id"], sql), TABLE), {TABLE.schema_id: TABLE})


class KilledError(Exception):
    """The process ends here."""


class MemoryBox:
    """Letters that outlive a ``Parking``. ``killing`` names the step to end at."""

    def __init__(self) -> None:
        self.letters = Letters()
        self.whole: dict[str, Letter] = {}
        self.written: list[str] = []
        self.killing = ""

    def read(self) -> Letters:
        return Letters(dict(self.letters.open), set(self.letters.settled))

    def write(self, letters: Sequence[Letter], parked: int) -> None:
        self.kill("before write")
        self.letters.add(letters)
        self.whole |= {letter.id: letter for letter in letters}
        self.written += [letter.id for letter in letters]
        assert parked == self.letters.parked
        self.kill("after write")

    def settle(self, ids: Iterable[str], parked: int) -> None:
        self.kill("before settle")
        self.letters.settle(ids)
        assert parked == self.letters.parked
        self.kill("after settle")

    def close(self) -> None:
        """Nothing is held."""

    def causes(self) -> list[str]:
        return [letter.cause for letter in self.letters.open.values() if letter.cause]

    def kill(self, step: str) -> None:
        if self.killing == step:
            raise KilledError(step)


class ParkedView:
    """The view ``v``; each ``apply`` is the next batch of its topic."""

    def __init__(self, spark: SparkSession, root: Path, sql: str = SQL, limit: int = 10) -> None:
        self._spark, self._root, self.limit = spark, root, limit
        self._definition = parse_view("v", "s", ["id"], sql)
        self.model = model_of(sql)
        self.sink, self.box = RecordingSink(), MemoryBox()
        self._number, self._end = -1, 0
        self._last: Sequence[Record] = ()
        self._seen = list[Record]()
        self.looked = 0
        self.restart()

    def restart(self, beginning: Beginning | None = None) -> None:
        """As a new process goes on from what is durable."""
        state = open_state(self._root / "v", declared(self._definition), beginning)
        state.checkpoint.mkdir(exist_ok=True)
        created = self.sink.prepare(self.model.columns, self._definition.key)
        self.applier = Applier("v", state, self.sink, created)
        self.parking = Parking("v", self.box, self.limit)
        self.parking.open({"events": {0: self._end}})

    def apply(self, *records: Record) -> None:
        self._last = records
        self._through(self._end, records)
        self._number += 1
        self._end += len(records)
        self._seen += records

    def again(self) -> None:
        """The batch that was not committed comes again."""
        self.apply(*self._last)

    def _through(self, first: int, records: Sequence[Record]) -> None:
        number = self._number + 1

        def attempt(flowing: DataFrame) -> None:
            self.box.kill("before apply")
            evaluated, before = partial(evaluate, self.model), partial(self._before, number)
            apply_records(self.model.view, flowing, number, self.applier, evaluated, before)
            self.box.kill("after apply")

        frame = kafka_frame(self._spark, records, first)
        end = {"events": {0: first + len(records)}}
        self.parking.through(frame, end, attempt, self._isolate, self._is_news)
        self.box.kill("before commit")

    def _before(self, number: int) -> DataFrame:
        assert number == self._number + 1
        return kafka_frame(self._spark, self._seen)

    def _is_news(self, _topic: str, position: Position, deletes: bool) -> bool:
        return self.applier.is_news(position, deletes)

    def _isolate(self, flowing: DataFrame, error: BaseException, at_most: int) -> list[Poison]:
        if isinstance(error, KilledError):
            raise error
        self.looked += 1
        return isolate(self.model, flowing, error, at_most)

    def rows(self, column: str = "body") -> dict[int, Any]:
        return {key: row[column] for key, row in self.sink.values().items()}

    def waiting(self) -> dict[str, list[str]]:
        """The ids of the letters of each parked key, as numbers of their events."""
        return {
            owner.key.decode(): [letter.id.removeprefix("events-0-") for letter in letters]
            for owner, letters in self.box.letters.keys.items()
        }

    def causes(self) -> list[str]:
        return [letter.cause for letter in self.box.letters.open.values()]
