"""Which changes are written into a table of history without Spark, and that both write the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from jobs.batch.thresholds import FEW_BYTES, HISTORY_CHANGES
from jobs.sinks.contract import Batch
from tests.support.events.batches import with_control
from tests.support.events.history_events import COLUMNS, Event, at, expected
from tests.support.views.histories import rows_of
from tests.support.views.history_tables import Written
from tests.unit.jobs.sinks.delta.test_delta_small import VALUES, WIDE, comparable

LARGE = "jobs.sinks.delta.history.small_batch.SMALL_TABLE_BYTES"


def none() -> int:
    raise AssertionError("asked how much it is")


@pytest.mark.parametrize(
    ("settings", "log", "scd2"),
    [
        ({}, True, True),
        ({"deletion_vectors": False}, True, False),
        ({"change_data_feed": True}, True, False),
        ({"partition_by": ("id",)}, False, False),
        ({"cluster_by": ("name",)}, False, False),
    ],
    ids=["plain", "no vectors", "feed", "partitions", "clusters"],
)
def test_what_a_large_table_must_be_to_be_written_without_spark(
    settings: dict[str, Any],
    log: bool,
    scd2: bool,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for history, wanted in (("log", log), ("scd2", scd2)):
        one = Written(spark, tmp_path / history, history, **settings)
        for count, held in ((1, wanted), (HISTORY_CHANGES + 1, False)):
            with monkeypatch.context() as patched:
                patched.setattr(LARGE, -1)
                assert one.sink._here.takes(count, none) == held, history
        assert not one.sink._here.takes(HISTORY_CHANGES, lambda: FEW_BYTES + 1)
        # Small tables are written anew where that is all there is.
        assert one.sink._here.takes(1, none) == (not {*settings} & {"partition_by", "cluster_by"})


@pytest.mark.parametrize("settings", [{"deletion_vectors": False}, {"change_data_feed": True}])
def test_a_table_without_marks_is_written_anew_where_versions_end(
    settings: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    one = Written(spark, tmp_path, "scd2", **settings)
    events = [Event(1, "c", 1, "a"), Event(1, "c", 2, "b", ordinal=2)]
    assert one.apply(*events) == "delta-rs"
    more = [Event(2, "u", 1, "A", None), Event(3, "d", 2), Event(3, "c", 3, "c", ordinal=2)]
    assert one.apply(*more) == "delta-rs"
    assert one.rows() == expected("scd2", [*events, *more])


@pytest.mark.parametrize("history", [pytest.param("log", marks=pytest.mark.exhaustive), "scd2"])
def test_a_truncate_of_a_large_table_is_spark_s(
    history: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Written(spark, tmp_path, history)
    events = [Event(1, "c", id_, "a", ordinal=id_) for id_ in range(1, 4)]
    one.apply(*events)
    monkeypatch.setattr(LARGE, 0)
    more = [Event(2, "t", None), Event(2, "t", None), Event(3, "c", 1, "again")]
    assert one.apply(*more) == "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
    last = Event(4, "u", 1, "b", None)
    assert one.apply(last) in {"Headwater", "delta-rs"}
    assert one.rows() == expected(history, [*events, *more, last])


@pytest.mark.parametrize("history", ["log", "scd2"])
def test_columns_come_and_go(history: str, spark: SparkSession, tmp_path: Path) -> None:
    more = StructType([*COLUMNS]).add("n", LongType())
    one = Written(spark, tmp_path, history)
    one.apply(Event(1, "c", 1, "a"), Event(1, "c", 2, "b", ordinal=2))
    one.columns, one.sink = more, one.opened_with(more)
    assert one.apply(Event(2, "u", 1, "A", None)) != ""
    given = changes(more, [{"id": 1, "name": "B", "n": 7}], 3, ["text"])
    assert one.write(given) != ""
    one.sink = one.opened_with(COLUMNS)
    assert one.apply(Event(4, "u", 1, "C", None), Event(4, "d", 2, ordinal=2)) != ""
    rows = [
        (row["__commit_lsn"], row["n"])
        for row in rows_of(tmp_path / "v", more, history)
        if row["id"] == 1
    ]
    assert sorted(rows) == [(1, None), (2, None), (3, 7), (4, None)]


def changes(
    columns: StructType,
    rows: Iterable[dict[str, Any]],
    lsn: int,
    unchanged: Iterable[str] = (),
    deleted: bool = False,
) -> pa.Table:
    """Changes of one transaction, in Arrow."""
    schema = to_arrow_schema(with_control(columns).add("__op", StringType()), timezone="UTC")
    whole = [
        {
            **row, "__deleted": deleted, "__commit_lsn": lsn, "__ordinal": ordinal,
            "__unchanged": list(unchanged), "__committed_at": at(lsn),
            "__op": "d" if deleted else "u",
        }
        for ordinal, row in enumerate(rows, 1)
    ]  # fmt: skip
    return pa.Table.from_pylist(whole, schema)


def plain(value: Any) -> Any:
    return value.asDict() if hasattr(value, "asDict") else value


def wide(first_id: int) -> list[dict[str, Any]]:
    rows = [dict.fromkeys(WIDE.names) | row for row in VALUES]
    for id_, row in enumerate(rows, first_id):
        row |= {name: plain(value) for name, value in row.items()} | {"id": id_}
        row["pairs"] = row["pairs"] and [plain(pair) for pair in row["pairs"]]
    return rows


def test_values_of_all_types_are_what_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    """In versions, which are written as the rows of a log are, and once more when they end."""
    here, there = (Written(spark, tmp_path / name, "scd2", WIDE) for name in ("here", "there"))
    nothing = [name for name in WIDE.names if name != "id"]
    keys = [{"id": row["id"]} for row in wide(2)]
    large = wide(1)[0] | {"Text": "\U0001f600x" * 600_000}
    batches = [
        changes(WIDE, [large, *wide(2)], 5),
        changes(WIDE, keys, 6, nothing),
        changes(WIDE, [{"id": 2, "small": 9}, {"id": 1}], 7, set(nothing) - {"small"}),
        changes(WIDE, keys[1:], 8, deleted=True),
        changes(WIDE, wide(3), 9),
    ]
    for batch in batches:
        assert here.write(batch) in {"delta-rs", "Headwater"}
    # A MERGE by Spark takes seconds, and how changes are batched is no matter to it.
    for number, batch in enumerate((batches[0], pa.concat_tables(batches[1:])), 1):
        frame = there.sink._frame(batch)
        there.sink.apply(frame, Batch("v", "g", number, HISTORY_CHANGES + 1))
    rows = []
    for one in (here, there):
        held = rows_of(one.home / "v", WIDE, "scd2")
        rows.append(sorted(
            [{name: comparable(value) for name, value in row.items()} for row in held],
            key=lambda row: (row["id"], row["__commit_lsn"], row["__ordinal"]),
        ))  # fmt: skip
    assert rows[0] == rows[1]
    assert len(rows[0]) == 12
    by_spark = [
        {tuple(map(str, row)) for row in spark.read.format("delta").load(f"{of.home}/v")
         .select("id", "__commit_lsn", "Text", "price", "at", "local", "real").collect()}
        for of in (here, there)
    ]  # fmt: skip
    assert by_spark[0] == by_spark[1]


@pytest.mark.parametrize(
    "key",
    [
        ("Text", "price", "at", "local", "flag", "on"),
        *(
            pytest.param(key, marks=pytest.mark.exhaustive)
            for key in (("Text",), ("price", "id"), ("at",), ("local", "flag"), ("on",))
        ),
    ],
    ids=" ".join,
)
def test_keys_of_any_type_that_both_think_alike_of(
    key: tuple[str, ...], wide_table: Written, tmp_path: Path
) -> None:
    one = wide_table.copied(tmp_path)
    one.sink._of.key = key
    rows = [row for row in wide(1) if row["at"]]
    rows[0]["Text"] = "it's \\ \u00df\U0001f600"
    assert one.write(changes(WIDE, rows, 5)) == "delta-rs"
    rest = [name for name in WIDE.names if name not in key]
    again = [{name: row[name] for name in key} for row in rows]
    assert one.write(changes(WIDE, again, 6, rest)) == "Headwater"
    assert one.write(changes(WIDE, again[:1], 7, deleted=True)) == "Headwater"
    assert one.write(changes(WIDE, again, 6, rest)) == ""
    held = rows_of(tmp_path / "v", WIDE, "scd2")
    assert sorted((row["id"], row["__commit_lsn"], row["__to_lsn"]) for row in held) == [
        (1, 5, 6), (1, 6, 7), (2, 5, 6), (2, 6, None),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def wide_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(spark, tmp_path_factory.mktemp("wide"), "scd2", WIDE)


def test_keys_of_floating_point_are_spark_s(spark: SparkSession, tmp_path: Path) -> None:
    columns = StructType().add("id", DoubleType()).add("name", StringType())
    one = Written(spark, tmp_path, "log", columns)
    assert not one.sink._here.takes(1, none)
    written = one.write(changes(columns, [{"id": 0.0, "name": "a"}, {"id": -0.0, "name": "b"}], 5))
    assert written.startswith("Apache-Spark")
    assert len(rows_of(tmp_path / "v", columns, "log")) == 2
