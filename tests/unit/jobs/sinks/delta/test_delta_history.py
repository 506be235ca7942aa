"""Delta tables that keep what rows were: every change once, in order, whatever batch brings it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from cdc.config import Delta
from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.batch.thresholds import HISTORY_CHANGES
from jobs.sinks.contract import Batch, Sink
from jobs.sinks.row_errors import RowsUnfitError
from jobs.sinks.stores import open_sink
from tests.support.events.batches import with_control
from tests.support.events.history_events import COLUMNS, Event, at, expected, naive
from tests.support.views.history_tables import as_expected

HISTORIES = ("log", "scd2")
PAGE = Path(__file__).parents[5] / "docs/delta.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


class History:
    """A table, and the batches of one checkpoint into it; ``by_spark`` every other one is written
    by Spark, as large ones are."""

    def __init__(
        self, spark: SparkSession, path: Path, history: str, by_spark: bool = False
    ) -> None:
        self.spark, self.path, self.history, self.by_spark = spark, path, history, by_spark
        self.generation, self.number = "g", 0
        self.sink = self.opened()

    def opened(self, history: str | None = None) -> Sink:
        config = Delta(kind="delta", path=str(self.path), optimize_batches=4, small_files=2)
        sink = open_sink(config, "v", self.spark, 5.0, history=history or self.history)
        sink.prepare(COLUMNS, ("id",))
        return sink

    def apply(self, *events: Event) -> None:
        rows = [
            (e.id, e.name, e.name and e.text, e.name is None, e.lsn, e.ordinal,
             ["text"] if e.name is not None and e.text is None else [], at(e.lsn), e.op)
            for e in events
        ]  # fmt: skip
        columns = with_control(COLUMNS).add("__op", StringType())
        frame = self.spark.createDataFrame(rows, columns, verifySchema=False)
        self.number += 1
        large = self.by_spark and self.number % 2
        keys = HISTORY_CHANGES + 1 if large else len(rows)
        self.sink.apply(frame, Batch("v", self.generation, self.number, keys))

    def restart(self, number: int) -> None:
        """Another process, with the checkpoint of a batch."""
        self.sink, self.number = self.opened(), number

    def rows(self) -> list[tuple[Any, ...]]:
        """What the table holds. What Spark reads of it: ``as_of``."""
        return as_expected(self.path / "v", COLUMNS, self.history)

    def current(self) -> dict[object, object]:
        return {row.key[0]: row.values["name"] for row in self.sink.scan()}

    def as_of(self, lsn: int) -> dict[int, tuple[str, str]]:
        """What the rows were, asked for as the documentation does."""
        name = {"log": "orders_log", "scd2": "orders_versions"}[self.history]
        (query,) = (q for q in QUERIES if name in q)
        self.spark.read.format("delta").load(str(self.path / "v")).createOrReplaceTempView(name)
        asked = query.replace("16B374D848", f"{lsn:X}").replace("status, total", "name, text")
        return {row[0]: (row[1], row[2]) for row in self.spark.sql(asked).collect()}


STORY = [
    Event(5, "c", 1, "a", "long"),
    Event(5, "c", 2, "b", ordinal=2),
    Event(6, "u", 1, "A", None),
    Event(6, "u", 1, "AA", None, ordinal=2),
    Event(7, "u", 2),  # it leaves the view
    Event(7, "u", 3, ordinal=2),  # it never was in it
    Event(8, "d", 2),
    Event(9, "u", 2, "back"),
    Event(10, "d", 1),
    Event(11, "c", 1, "again", "other"),
    Event(12, "t", None),
    Event(13, "c", 1, "after"),
    Event(14, "u", 1, "last", None),
]


@pytest.mark.parametrize("history", HISTORIES)
def test_every_change_appears_once_whatever_comes_again(
    history: str, spark: SparkSession, tmp_path: Path
) -> None:
    """By Spark and here in turns; here alone: ``test_delta_history_small``."""
    one = History(spark, tmp_path, history, by_spark=True)
    one.apply(*STORY[:9], STORY[3])  # one of them twice
    assert one.rows() == expected(history, STORY[:9])
    assert one.current() == {2: "back"}
    one.apply(*STORY[9:])
    whole = expected(history, STORY)
    assert one.rows() == whole
    assert one.current() == {1: "last"}
    assert one.as_of(6) == {1: ("a", "long"), 2: ("b", "t")}
    assert one.as_of(9) == {1: ("AA", "long")}
    assert one.as_of(13) == {}
    assert one.as_of(15) == {1: ("last", "t")}
    one.number -= 1
    one.apply(*STORY[9:])  # the batch again, under its number
    one.restart(0)  # with the checkpoint of before: other batches under the same numbers
    one.apply(*STORY[5:11], STORY[10])
    one.apply(*STORY[4:])
    assert one.rows() == whole
    with pytest.raises(ViewError, match=r"created with history = .*view rebuild v --new-history"):
        one.opened({"log": "scd2", "scd2": "log"}[history])


def test_versions_that_ended_long_ago_may_be_deleted(spark: SparkSession, tmp_path: Path) -> None:
    one = History(spark, tmp_path, "scd2")
    one.apply(*STORY)
    spark.sql(f"delete from delta.`{tmp_path}/v` where __valid_to < '{naive(14)}'")
    left = [row for row in expected("scd2", STORY) if row[5] is None or row[5] >= 14]
    assert one.rows() == left
    one.restart(0)
    one.apply(*STORY[-2:], Event(15, "u", 1, "next", None))
    whole = expected("scd2", [*STORY, Event(15, "u", 1, "next", None)])
    assert one.rows() == [row for row in whole if row[5] is None or row[5] >= 14]


def test_a_value_that_nobody_has_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one = History(spark, tmp_path, "log")
    one.apply(Event(5, "c", 1, "a"))
    with pytest.raises(RowsUnfitError) as refused:
        one.apply(Event(6, "u", 1), Event(7, "u", 1, "back", None), Event(7, "u", 9, "x", None))
    assert {row.id for row in refused.value.rows} == {"1", "9"}
    assert len(one.rows()) == 1


@pytest.mark.parametrize("history", HISTORIES)
def test_what_nobody_has_of_before_a_row_was_read_is_left_out(
    history: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A table joins the stream: its rows are read later than the first changes come, or sooner."""
    read = Event(30, "r", 1, "read", "long", 0)
    of_before, behind = Event(15, "u", 1, "early", None), Event(31, "u", 1, "late", None)
    one = History(spark, tmp_path, history)
    one.apply(read)
    one.apply(of_before, behind, Event(15, "u", 2, "both", None), Event(16, "r", 2, "two", "x", 0))
    whole = expected(history, [read, behind, Event(16, "r", 2, "two", "x", 0)])
    assert one.rows() == whole
    one.restart(0)
    one.apply(of_before)
    one.sink.truncate(Position(40, 1), Batch("v", "g", 9, 1))
    assert one.current() == {}
    assert one.as_of(41) == {}
    assert one.as_of(40) == {1: ("late", "long"), 2: ("two", "x")}
