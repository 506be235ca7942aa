"""A view's batches, one after the other, without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc.events.codes import PLACEHOLDER
from jobs.generations.declaration import declared
from jobs.generations.view_state import open_state
from jobs.without_mirrors.evaluation import Applier, Model, evaluate, released
from tests.support.events.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.support.views.recording_sink import RecordingSink
from views.parse.definition import parse_view
from views.spark.resolution import resolve
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT

TABLE = TableVersion(
    "0" * 16,
    "public",
    "t",
    (TableColumn("id", INT4), TableColumn("body", TEXT), TableColumn("n", INT4)),
    ("id",),
)


def model_of(sql: str) -> Model:
    return Model(resolve(parse_view("v", "s", ["id"], sql), TABLE), {TABLE.schema_id: TABLE})


class Batches:
    """Applies a view's batches to a store in memory."""

    def __init__(self, spark: SparkSession, root: Path, sql: str) -> None:
        self._spark, self._root, self._number = spark, root, -1
        self._definition = parse_view("v", "s", ["id"], sql)
        self._model = model_of(sql)
        self.sink = RecordingSink()
        self.restart()

    def restart(self) -> None:
        """As a new process goes on from the view's state and store."""
        state = open_state(self._root / "v", declared(self._definition))
        state.checkpoint.mkdir(exist_ok=True)
        created = self.sink.prepare(self._model.columns, self._definition.key)
        self._applier = Applier("v", state, self.sink, created)

    def apply(self, *records: Record) -> None:
        self._number += 1
        held, counted = evaluate(self._model, kafka_frame(self._spark, records))
        with released(held):
            self._applier.apply(held, counted, self._number)

    def live(self) -> dict[int, object]:
        return {key: row["body"] for key, row in self.sink.values().items()}


@pytest.mark.parametrize("killed", [False, True])
def test_a_partition_that_lags_behind_a_truncate_asks_for_no_removed_values(
    spark: SparkSession, tmp_path: Path, killed: bool
) -> None:
    batches = Batches(spark, tmp_path, "select id, body, n from t")
    batches.apply(event(10, 1, {"id": 1, "body": "large", "n": 1}))
    batches.apply(truncate(30, 1))
    if killed:
        batches.restart()
    batches.apply(event(20, 1, {"id": 1, "body": PLACEHOLDER, "n": 2}, "u"))
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
