"""A view's batches, one after the other, without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.events.codes import PLACEHOLDER
from jobs.generations.declaration import declared
from jobs.generations.view_state import Beginning, open_state
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.evaluation import Applier, evaluate
from jobs.without_mirrors.late_snapshot_rows import ForgottenDeletes, Returning
from jobs.without_mirrors.late_snapshot_values import apply_records
from tests.support.events.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.support.views.parked_view import model_of
from tests.support.views.recording_sink import RecordingSink
from views.parse.definition import parse_view


class Batches:
    """Applies a view's batches to a store in memory."""

    def __init__(self, spark: SparkSession, root: Path, sql: str) -> None:
        self._spark, self._root, self._number = spark, root, -1
        self._definition = parse_view("v", "s", ["id"], sql)
        self._model = model_of(sql)
        self.sink = RecordingSink()
        self._seen = list[Record]()
        self.evaluated = list[Part | None]()
        self.restart()

    def restart(
        self, beginning: Beginning | None = None, returning: Returning | None = None
    ) -> None:
        """As a new process goes on from the view's state and store."""
        state = open_state(self._root / "v", declared(self._definition), beginning)
        state.checkpoint.mkdir(exist_ok=True)
        created = self.sink.prepare(self._model.columns, self._definition.key)
        self._applier = Applier("v", state, self.sink, created, returning)

    def apply(self, *records: Record) -> None:
        self._number += 1
        frame = kafka_frame(self._spark, records, len(self._seen))
        self.evaluated.clear()
        apply_records(
            self._model.view, frame, self._number, self._applier, self._evaluate, self._before
        )
        self._seen += records

    def rows_before(self, _number: int) -> DataFrame:
        return self._model.rows(self._before())

    def _before(self) -> DataFrame:
        return kafka_frame(self._spark, self._seen)

    def _evaluate(self, records: DataFrame, part: Part | None) -> tuple[DataFrame, Account]:
        self.evaluated.append(part)
        return evaluate(self._model, records, part)

    def live(self) -> dict[int, object]:
        return {key: row["body"] for key, row in self.sink.values().items()}


def test_a_partition_that_lags_behind_a_truncate_asks_for_no_removed_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Neither in the process that has seen the truncate nor in the next one."""
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    large = [event(10, id_, {"id": id_, "body": "large", "n": 1}) for id_ in (1, 2)]
    batches.apply(*large)
    batches.apply(truncate(30, 1))
    batches.apply(event(20, 1, {"id": 1, "body": PLACEHOLDER, "n": 2}, "u"))
    batches.restart()
    batches.apply(event(20, 2, {"id": 2, "body": PLACEHOLDER, "n": 2}, "u"))
    batches.apply(event(40, 1, {"id": 2, "body": "new", "n": 3}))
    batches.apply(truncate(30, 1))
    assert batches.live() == {2: "new"}


def test_rows_around_a_truncate_of_their_own_batch_are_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    batches.apply(event(10, 1, {"id": 1, "body": "held"}), event(10, 2, {"id": 2, "body": "held"}))
    batches.apply(
        event(20, 1, {"id": 1, "body": PLACEHOLDER}, "u"),
        truncate(30, 2),
        event(30, 1, {"id": 3, "body": "before, in its transaction"}),
        event(30, 3, {"id": 4, "body": "after, in its transaction"}),
    )
    assert batches.live() == {4: "after, in its transaction"}


def test_a_new_checkpoint_knows_nothing_of_truncates(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    batches.apply(truncate(30, 1))
    (tmp_path / "v" / "checkpoint").rmdir()
    batches.restart()
    batches.apply(event(20, 1, {"id": 1, "body": "of before"}))
    assert batches.live() == {1: "of before"}


def test_only_a_store_made_just_now_needs_no_deletes_of_snapshot_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(spark, tmp_path, "select id, body from t where n > 0")
    rows = [snapshot(10, {"id": 1, "body": "in", "n": 1}), snapshot(10, {"id": 2, "n": 0})]
    batches.apply(*rows)
    assert set(batches.sink.rows) == {(1,)}
    batches.apply(event(11, 1, {"id": 3, "body": "x", "n": 1}), *delete(12, 1, {"id": 3}))
    batches.restart()
    batches.apply(snapshot(20, {"id": 1, "body": "left the filter", "n": 0}))
    assert batches.live() == {}


def read(lsn: int, id_: int, body: str, n: int = 1) -> Record:
    return snapshot(lsn, {"id": id_, "body": body, "n": n})


def put(lsn: int, id_: int, body: str = PLACEHOLDER, n: int = 1) -> Record:
    return event(lsn, 1, {"id": id_, "body": body, "n": n}, "u")


@pytest.mark.parametrize(
    ("sql", "shown", "killed"),
    [
        ("select id, body, n from t", "of 90", True),
        ("select id, body, n from t where n > 0", "of 90", False),
        ("select id, upper(body) as body from t", "OF 90", True),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in (
            ("select id, body, n from t", "of 90", False),
            ("select id, body, n from t where n > 0", "of 90", True),
            ("select id, upper(body) as body from t", "OF 90", False),
        )),
    ],
)  # fmt: skip
def test_a_late_row_of_a_snapshot_has_no_say_on_values_of_newer_ones(
    spark: SparkSession, tmp_path: Path, sql: str, shown: str, killed: bool
) -> None:
    """Whether the newer row is in the store, or WHERE left it out, or another value is there."""
    batches = Batches(spark, tmp_path, sql)
    batches.apply(put(90, 1, "of 90", 0), put(91, 4, "of 91"))
    if killed:
        batches.restart()
    batches.apply(
        *(record for id_ in (1, 2) for record in (read(50, id_, "of 50"), put(100, id_))),
        *(put(95, 3, "of 95"), read(50, 3, "of 50"), put(100, 3)),
    )
    as_shown = str.upper if shown.isupper() else str
    assert batches.live() == {
        1: shown, 2: as_shown("of 50"), 3: as_shown("of 95"), 4: as_shown("of 91")
    }  # fmt: skip


def test_rows_that_a_generation_was_filled_with_are_newer_than_late_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    batches.apply(put(90, 1, "of 90"))
    batches.restart(Beginning({}, 95, 95))
    batches.apply(read(50, 1, "of 50"), put(100, 1))
    assert batches.live() == {1: "of 90"}


def test_what_is_newer_than_all_before_it_is_given_to_the_store_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    batches.apply(read(50, 1, "of 50"), read(50, 2, "of 50"))
    batches.apply(read(50, 3, "of 50"), put(100, 3))
    batches.apply(read(50, 4, "of 50"), put(110, 4))
    assert batches.live() == dict.fromkeys(range(1, 5), "of 50")
    assert len(batches.sink.batches) == 4


def test_a_process_learns_once_what_was_applied_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A batch with late rows that follows another one is evaluated once less."""
    batches = Batches(spark, tmp_path, "select id, body, n from t where n > 0")
    batches.apply(put(90, 1, "of 90"))
    batches.restart()
    batches.apply(read(95, 2, "of 95"), put(100, 2))
    assert batches.evaluated == [None, Part.WHOLE]
    batches.apply(read(98, 3, "of 98"), put(101, 3))
    assert batches.evaluated == [Part.WHOLE, Part.WHOLE], "100 is newer"
    batches.apply(read(105, 4, "of 105"), put(110, 4))
    assert batches.evaluated == [Part.WHOLE]
    batches.apply(put(120, 5, "of 120"))
    assert batches.evaluated == [None]
    batches.restart()
    batches.apply(read(121, 6, "of 121"), put(130, 6))
    batches.apply(read(131, 7, "of 131"), put(132, 7))
    assert batches.evaluated == [Part.WHOLE], "nothing before is newer"
    assert batches.live() == {
        1: "of 90", 2: "of 95", 3: "of 98", 4: "of 105", 5: "of 120", 6: "of 121", 7: "of 131"
    }  # fmt: skip


def test_a_row_that_has_expired_does_not_come_back_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    forgotten = ForgottenDeletes(0.0, None)
    batches.restart(None, Returning(("id",), batches.rows_before, forgotten, 0.0, expires=True))
    batches.apply(put(90, 1, "of 90"), put(90, 2, "of 90"), read(50, 3, "of 50"))
    batches.sink.rows.clear()
    batches.apply(read(50, 1, "of 50"), read(50, 4, "of 50"), put(100, 2, "of 100"))
    assert batches.live() == {2: "of 100", 4: "of 50"}
