"""Mirrors: what a batch changes in them, also late, again, and after an attempt that was killed."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.delta_engine.batch_records import with_records
from jobs.delta_engine.mirrors.attempts import Attempts, read_attempts, write_attempts
from jobs.delta_engine.mirrors.changes import Changed, write_changes
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.row_errors import RowsUnfitError
from jobs.spark.column_types import spark_type
from jobs.without_mirrors.evaluation import NOWHERE
from jobs.without_mirrors.fold import EVENT
from views.types import PgType

COLUMNS = StructType(
    [
        StructField("id", IntegerType()),
        StructField("a b,c", IntegerType()),
        StructField("note", StringType()),
    ]
)


def mirror_in(path: Path) -> Mirror:
    mirror = Mirror(cast("Any", None), path, COLUMNS, ("id",))
    mirror.prepare()
    return mirror


def change(
    lsn: int, id_: int | None, a: int | None = None, note: str | None = None, **more: Any
) -> dict[str, Any]:
    op = more.pop("op", "u")
    return {
        "id": id_, "a b,c": a, "note": note, DELETED: op == "d", COMMIT_LSN: lsn, ORDINAL: 1,
        UNCHANGED: more.pop("unchanged", []), EVENT: {"op": op, "oldest_us": 1, **more},
    }  # fmt: skip


def rows(*changes: dict[str, Any]) -> pa.Table:
    schema = pa.schema(
        [
            ("id", pa.int32()), ("a b,c", pa.int32()), ("note", pa.string()), (DELETED, pa.bool_()),
            (COMMIT_LSN, pa.int64()), (ORDINAL, pa.int64()), (UNCHANGED, pa.list_(pa.string())),
            (EVENT, pa.struct([("op", pa.string()), ("oldest_us", pa.int64()),
                               ("read", pa.list_(pa.string())), ("read_lsn", pa.int64())])),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(list(changes), schema)


class Table:
    """A mirror and its attempts."""

    def __init__(self, path: Path) -> None:
        self.mirror, self.attempts = mirror_in(path), Attempts()

    def write(self, *changes: dict[str, Any], settles: bool = True) -> dict[int, tuple[Any, Any]]:
        """The images of what changed, by id."""
        before = self.attempts
        cut = [Position(c[COMMIT_LSN], c[ORDINAL]) for c in changes if c[EVENT]["op"] == "t"]
        truncated = {"t": max(cut)} if cut else {}
        now = before.begun(max(c[COMMIT_LSN] for c in changes), truncated)
        found = write_changes(
            "v", self.mirror, rows(*changes), before, now, now.truncated.get("t", NOWHERE)
        )
        self.attempts = now.done({}) if settles else now
        return images(found)

    def held(self) -> dict[int, Any]:
        found = self.mirror.all().to_pylist()
        return {row["id"]: (row["a b,c"], row["note"]) for row in found if not row[DELETED]}


def images(found: Changed) -> dict[int, tuple[Any, Any]]:
    sides: list[dict[int, Any]] = [
        {row["id"]: (row["a b,c"], row["note"]) for row in side.to_pylist()}
        for side in (found.before, found.after)
    ]
    old, new = sides
    return {key: (old.get(key), new.get(key)) for key in {**old, **new}}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "public.t")


def test_images_of_rows_that_come_change_and_go(table: Table) -> None:
    assert table.write(change(1, 1, 5, "x"), change(1, 2, 6, "y")) == {
        1: (None, (5, "x")),
        2: (None, (6, "y")),
    }
    found = table.write(change(2, 1, 7, "x"), change(2, 2, op="d"), change(2, 3, 8, "it's"))
    assert found == {1: ((5, "x"), (7, "x")), 2: ((6, "y"), None), 3: (None, (8, "it's"))}
    assert table.held() == {1: (7, "x"), 3: (8, "it's")}


def test_what_is_older_or_the_same_changes_nothing(table: Table) -> None:
    table.write(change(5, 1, 5, "x"), change(6, 2, op="d"))
    assert table.write(change(5, 1, 9, "y"), change(4, 2, 1, "late"), change(7, 3, 1, "z")) == {
        3: (None, (1, "z"))
    }
    assert table.write(change(8, 1, 5, "x")) == {}  # newer, and as it was


def test_what_a_killed_attempt_wrote_counts_as_changed(table: Table) -> None:
    table.write(change(1, 1, 5, "x"))
    table.write(change(2, 1, 6, "y"), change(2, 2, 1, "new"), settles=False)
    again = table.write(change(2, 1, 6, "y"), change(2, 2, 1, "new"), change(3, 3, 2, "more"))
    assert again == {
        1: ((5, "x"), (6, "y")),
        2: (None, (1, "new")),
        3: (None, (2, "more")),
    }


def test_what_was_taken_back_comes_again_as_if_for_the_first_time(table: Table) -> None:
    table.write(change(1, 1, 5, "x"), settles=False)
    table.mirror.take_back(table.attempts.settled)
    assert (table.held(), table.mirror.versions) == ({}, 0)
    assert table.write(change(1, 1, 5, "x")) == {1: (None, (5, "x"))}
    table.write(change(2, 1, 6, "y"), change(2, 2, 1, "new"), settles=False)
    table.mirror.compact()
    table.mirror.take_back(table.attempts.settled)
    assert table.held() == {1: (5, "x")}
    assert table.write(change(2, 2, 1, "new")) == {2: (None, (1, "new"))}


def test_truncate_takes_what_is_older_whenever_it_comes(table: Table) -> None:
    table.write(change(1, 1, 5, "x"), change(9, 2, 6, "y"))
    found = table.write(change(5, None, op="t"), change(6, 3, 7, "z"))
    assert found == {1: ((5, "x"), None), 3: (None, (7, "z"))}
    assert table.write(change(4, 4, 1, "late")) == {}
    assert table.held() == {2: (6, "y"), 3: (7, "z")}


def test_a_value_that_was_left_out_is_taken_from_the_mirror(table: Table) -> None:
    table.write(change(1, 1, 5, "large"))
    assert table.write(change(2, 1, 6, unchanged=["note"])) == {1: ((5, "large"), (6, "large"))}
    with pytest.raises(ViewError, match="value that the store does not hold"):
        table.write(change(3, 2, 6, unchanged=["note"]))


def test_a_value_of_a_snapshot_is_taken_unless_the_mirror_has_a_newer_row(table: Table) -> None:
    table.write(change(90, 1, 5, "of 90"), change(40, 2, 5, "of 40"))
    read = {"read": ["note"], "read_lsn": 50}
    table.write(*(change(100, id_, 6, "of 50", **read) for id_ in (1, 2, 3)))
    assert table.held() == {1: (6, "of 90"), 2: (6, "of 50"), 3: (6, "of 50")}


def test_a_row_whose_key_is_null_is_told_and_never_taken_for_another(table: Table) -> None:
    with pytest.raises(RowsUnfitError, match="a row's key is null") as caught:
        table.write(change(1, None, 5, "x"), change(2, 1, 6, "y"))
    assert [row.position for row in caught.value.rows] == [Position(1, 1)]
    assert table.write(change(3, None, op="d"), change(4, 2, 7, "z")) == {2: (None, (7, "z"))}


def test_many_values_are_looked_up_as_few_are(table: Table) -> None:
    table.write(*(change(1, i, i % 7, "x") for i in range(2000)))
    few = pa.table({"id": pa.array(range(50, 150), pa.int64())})
    assert len(table.mirror.rows(few)) == 100
    many = pa.table({"id": pa.array(range(1000, 5000), pa.int64())})
    assert len(table.mirror.rows(many)) == 1000
    nothing = pa.table({"id": pa.array([2**40], pa.int64())})
    assert len(table.mirror.rows(nothing)) == 0


def test_attempts_are_kept_whole(tmp_path: Path) -> None:
    assert read_attempts(tmp_path) == Attempts()
    begun = (
        Attempts().begun(70, {"public.t": Position(9, 2)}).begun(60, {"public.t": Position(8, 1)})
    )
    assert (begun.position, begun.settled) == (Position(70, 2), 0)
    assert begun.truncated == {"public.t": Position(9, 2)}
    write_attempts(tmp_path, begun.done({}))
    assert read_attempts(tmp_path) == begun.done({})
    assert begun.done({}).settled == 2


def test_a_batch_has_records_of_the_topics_whose_offsets_moved() -> None:
    end = {"a": {0: 5, 1: 7}, "b": {0: 3}, "c": {0: 0}}
    assert with_records({}, end) == {"a", "b"}
    assert with_records({"a": {0: 5, 1: 6}, "b": {0: 3}}, end) == {"a"}
    assert with_records(end, end) == set()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int2", 7), ("int8", 1 << 60), ("float8", 0.1), ("bool", True),
        ("date", date(2024, 2, 29)), ("text", "it's"), ("bytea", b"\x00\xff"),
        ("timestamptz", datetime(1066, 10, 14, 9, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", datetime(2524, 2, 29, 12, 0, 0, 1)),
    ],
)  # fmt: skip
def test_rows_are_found_by_values_of_each_type(tmp_path: Path, kind: str, value: Any) -> None:
    columns = StructType(
        [StructField("id", IntegerType()), StructField("v", spark_type(PgType(kind)))]
    )
    mirror = Mirror(cast("Any", None), tmp_path / "public.t", columns, ("v",))
    mirror.prepare()
    held = [{"id": 1, "v": value}, {"id": 2, "v": None}]
    control = {DELETED: False, COMMIT_LSN: 1, ORDINAL: 1}
    mirror.append(pa.Table.from_pylist([{**row, **control} for row in held], mirror.arrow), 1)
    wanted = pa.table({"v": pa.array([value], mirror.arrow.field("v").type)})
    assert mirror.rows(wanted).to_pylist() == held[:1]


def test_what_spark_writes_of_long_ago_is_read_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = StructType().add("id", IntegerType()).add("at", TimestampType())
    mirror = Mirror(spark, tmp_path, columns, ("id",))
    mirror.prepare()
    instants = [datetime(1500, 2, 28, 23, 59, 59, 999_999, UTC), datetime(9999, 12, 31, tzinfo=UTC)]
    made = [(i, at, False, 1, 1) for i, at in enumerate(instants)]
    mirror.fill(spark.createDataFrame(made, mirror.version_columns))
    assert dict(zip(*mirror.all().select(["id", "at"]).to_pydict().values(), strict=True)) == dict(
        enumerate(instants)
    )
    mirror.rewrite()
    assert sorted(mirror.all().column("at").to_pylist()) == instants


def test_what_another_writes_is_read_and_a_mirror_that_was_removed_is_not_begun_anew(
    tmp_path: Path,
) -> None:
    """It is opened once, and its log is read on from there."""
    one, other = mirror_in(tmp_path / "m"), mirror_in(tmp_path / "m")
    assert one.versions == 0
    version = rows(change(10, 1, 5, "a")).select(one.arrow.names)
    other.append(version, 1)
    assert one.versions == 1
    other.take_back(0)
    assert one.versions == 0
    one.append(version, 2)
    assert other.all().column("note").to_pylist() == ["a"]
    shutil.rmtree(tmp_path / "m")
    for touch in (lambda: one.append(version, 3), lambda: one.versions, one.all):
        with pytest.raises(TableNotFoundError):
            touch()
    assert not (tmp_path / "m").exists()
