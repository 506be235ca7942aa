"""Random transactions over a table of history: as of any LSN it is what the source was.

The topic has two partitions, whose batches overtake each other; rows of a snapshot that stand
behind later changes of theirs; and it is read again from an older copy of the checkpoint, in other
batches. The oracle knows nothing of batches: it folds all changes by position.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.config import Delta
from cdc.events.codes import PLACEHOLDER
from cdc.lsn import Position
from jobs.generations.declaration import declared
from jobs.generations.view_state import open_state
from jobs.sinks.stores import open_sink
from jobs.without_mirrors.earlier_changes import EarlierChanges
from jobs.without_mirrors.evaluation import Applier, Model, evaluate
from jobs.without_mirrors.late_snapshot_rows import ForgottenDeletes, Returning
from jobs.without_mirrors.late_snapshot_values import apply_records
from tests.support.events.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.support.views.histories import Row, as_of, rows_of
from tests.support.views.parked_view import TABLE
from views.parse.definition import parse_view
from views.spark.resolution import resolve

SQL = "select id, body, n from t where n > 0"
TRANSACTIONS, STEP, KEYS, READ_AT = 40, 10, 6, 16
Values = tuple[str, int]


class Change(NamedTuple):
    """``id`` None: of all rows. ``row`` None: it is not in the view from here on."""

    at: Position
    id: int | None
    row: Values | None


class Story:
    """What a source does, and its topic: ``partitions`` of records, in their order."""

    def __init__(self, seed: int) -> None:
        self.random, self.changes = Random(seed), list[Change]()
        self.partitions: list[list[Record]] = [[], []]
        # Rows of before the table joined the stream: known by its snapshot alone.
        self._rows: dict[int, Values] = {id_: (f"before {id_}", 1) for id_ in range(3)}
        self._told = set[int]()
        late: list[Record] = []
        for number in range(1, TRANSACTIONS + 1):
            if number == READ_AT:
                late = self._read(number * STEP)
                continue
            ordinal = 0
            for _ in range(self.random.randint(1, 4)):
                ordinal += self._change(number * STEP, ordinal + 1)
        for record in late:
            of = self.partitions[self._partition(record)]
            of.insert(self.random.randint(0, len(of)), record)

    def _read(self, lsn: int) -> list[Record]:
        for id_ in self._rows:
            self._changed(Position(lsn, 0), id_)
        return [
            snapshot(lsn, {"id": id_, "body": body, "n": n})
            for id_, (body, n) in self._rows.items()
        ]

    def _change(self, lsn: int, ordinal: int) -> int:
        """One statement; how many events it is."""
        at, random = Position(lsn, ordinal), self.random
        if random.random() < 0.04:
            self._rows.clear()
            self._told.clear()
            self.changes.append(Change(at, None, None))
            for partition in self.partitions:
                partition.append(truncate(*at))
            return 1
        id_ = random.randrange(KEYS)
        if id_ not in self._rows:
            self._write(at, id_, (f"made {lsn}", random.choice((0, 1, 2))), "c")
            return 1
        free = [other for other in range(KEYS) if other not in self._rows]
        what = random.choice(("update", "update", "update", "delete", "move"))
        if what == "update" or (what == "move" and not free):
            body, n = self._rows[id_][0], random.choice((0, 1, 2))
            kept = id_ in self._told and random.random() < 0.6
            self._write(at, id_, (body if kept else f"new {lsn}", n), "u", kept)
            return 1
        values = self._rows.pop(id_)
        self._told.discard(id_)
        self._changed(at, id_)
        self.partitions[id_ % 2] += delete(*at, {"id": id_})
        if what == "delete":
            return 1
        self._write(Position(lsn, ordinal + 1), random.choice(free), values, "c")
        return 2

    def _write(self, at: Position, id_: int, values: Values, op: str, kept: bool = False) -> None:
        self._rows[id_] = values
        (self._told.add if values[1] > 0 else self._told.discard)(id_)
        self._changed(at, id_)
        row = {"id": id_, "body": PLACEHOLDER if kept else values[0], "n": values[1]}
        self.partitions[id_ % 2].append(event(*at, row, op))

    def _changed(self, at: Position, id_: int) -> None:
        row = self._rows.get(id_)
        self.changes.append(Change(at, id_, row if row and row[1] > 0 else None))

    @staticmethod
    def _partition(record: Record) -> int:
        key, _ = record
        assert key is not None
        return int(key.decode().strip('{}"id:')) % 2

    def versions(self) -> dict[int, list[Change]]:
        """The changes that a history has to show, of each row in order: it was there, or went."""
        found: dict[int, list[Change]] = {}
        for change in sorted(self.changes, key=lambda one: one.at):
            for id_ in list(found) if change.id is None else [change.id]:
                of_row = found.setdefault(id_, [])
                if change.row or (of_row and of_row[-1].row):
                    of_row.append(change)
        return found

    def as_of(self, lsn: int) -> dict[int, Values]:
        """The view of what was committed below an LSN."""
        rows: dict[int, Values] = {}
        for change in sorted(self.changes, key=lambda one: one.at):
            if change.at.commit_lsn >= lsn:
                break
            for id_ in list(rows) if change.id is None else [change.id]:
                rows.pop(id_, None)
                if change.row:
                    rows[id_] = change.row
        return rows


class View:
    """A view with history, and the process that applies it."""

    def __init__(self, spark: SparkSession, root: Path, history: str) -> None:
        self.spark, self.root, self.history = spark, root, history
        self._seen = list[Record]()
        self._definition = parse_view("v", "s", ["id"], SQL, history)
        self._model = Model(resolve(self._definition, TABLE), {TABLE.schema_id: TABLE}, True)

    def restart(self, number: int) -> None:
        """A new process, whose checkpoint is that of a batch."""
        state = open_state(self.root / "state" / "v", declared(self._definition))
        state.checkpoint.mkdir(exist_ok=True)
        lake = Delta(kind="delta", path=str(self.root / "lake"))
        self.sink = open_sink(lake, "v", self.spark, 5.0, history=self.history)
        created = self.sink.prepare(self._model.columns, self._definition.key)
        forgotten = ForgottenDeletes(0.0, 0.0 if number else None)
        returning = Returning(("id",), self._before, forgotten)
        self._applier = Applier("v", state, self.sink, created, returning, True)
        self._number = number

    def _before(self, number: int) -> DataFrame:
        assert number == self._number
        return self._model.rows(self._records_before())

    def _records_before(self) -> DataFrame:
        """Without rows of snapshots, as they are kept."""
        seen = EarlierChanges(lambda *_: kafka_frame(self.spark, self._seen))
        return seen.before({0: len(self._seen)})

    def apply(self, records: list[Record], seen: list[Record]) -> None:
        self._seen = seen
        frame = kafka_frame(self.spark, records, len(seen))
        evaluated = partial(evaluate, self._model)
        apply_records(
            self._model.view, frame, self._number, self._applier, evaluated, self._records_before
        )
        self._number += 1

    def rows(self) -> list[Row]:
        return rows_of(self.root / "lake" / "v", self._model.columns, self.history)


def held(history: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Rows of a table as ``wanted`` has them. A log may tell once more that a row is gone, where
    what had removed it before came later: that is left out."""
    found: list[tuple[Any, ...]] = []
    there: set[int] = set()
    for row in sorted(rows, key=lambda row: (row["__commit_lsn"], row["__ordinal"])):
        place = (row["id"], Position(row["__commit_lsn"], row["__ordinal"]))
        values = None if row["n"] is None else (row["body"], row["n"])
        if history == "scd2":
            to = None if row["__current"] else Position(row["__to_lsn"], row["__to_ordinal"])
            found.append((*place, to, values))
            continue
        assert (values is None) == (row["__op"] in ("d", "t"))
        if values or row["id"] in there:
            found.append((*place, values))
        (there.add if values else there.discard)(row["id"])
    return sorted(found, key=str)


def wanted(history: str, story: Story) -> list[tuple[Any, ...]]:
    """What a table has to hold: a row of a log for each change, else one for each version."""
    found: list[tuple[Any, ...]] = []
    for id_, changes in story.versions().items():
        if history == "log":
            found += [(id_, one.at, one.row) for one in changes]
            continue
        ends = [*(one.at for one in changes[1:]), None]
        found += [
            (id_, one.at, to, one.row) for one, to in zip(changes, ends, strict=False) if one.row
        ]
    return sorted(found, key=str)


@pytest.mark.parametrize(("history", "seed"), [("log", 1), ("scd2", 2)])
def test_folded_at_any_lsn_it_is_what_the_source_was(
    history: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    story, random = Story(seed), Random(seed)
    view = View(spark, tmp_path, history)
    stops: list[tuple[int, ...]] = [(0, 0)]
    ends = tuple(map(len, story.partitions))
    for checkpoint, batches in ((0, 2), (1, TRANSACTIONS)):
        del stops[checkpoint + 1 :]
        view.restart(checkpoint)
        while stops[-1] != ends and len(stops) <= checkpoint + batches:
            at = stops[-1]
            to = tuple(
                min(end, one + random.randint(end // 4, end // 2 + 1))
                for one, end in zip(at, ends, strict=True)
            )
            of = list(zip(story.partitions, at, to, strict=True))
            view.apply(
                [record for records, begin, end in of for record in records[begin:end]],
                [record for records, begin, _ in of for record in records[:begin]],
            )
            stops.append(to)
    rows = view.rows()
    assert len({(row["id"], row["__commit_lsn"], row["__ordinal"]) for row in rows}) == len(rows)
    assert held(history, rows) == wanted(history, story)
    for lsn in range(0, (TRANSACTIONS + 2) * STEP, STEP):
        then = as_of(history, rows, lsn + 1)
        found = {id_: (row["body"], row["n"]) for id_, row in then.items()}
        assert found == story.as_of(lsn + 1), f"as of {lsn + 1}"
    current = {row.key[0]: (row.values["body"], row.values["n"]) for row in view.sink.scan()}
    assert current == story.as_of(TRANSACTIONS * STEP * 2)
