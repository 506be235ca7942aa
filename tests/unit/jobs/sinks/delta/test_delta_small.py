"""Small batches into Delta tables, written without Spark: Spark reads and goes on with the same."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.errors import RetryableError, ViewError
from cdc.lsn import Position
from jobs.sinks.delta.small_merge import merge
from jobs.sinks.delta.transactions import Transaction
from tests.support.events.batches import batch_rows, delete, upsert
from tests.support.views.delta_table import Opened

NAMES = StructType().add("id", LongType()).add("name", StringType())
LSN = 0x16_B374_D848
PAIR = StructType().add("n", IntegerType()).add("s", StringType())
WIDE = (
    StructType()
    .add("id", LongType())
    .add("Text", StringType())
    .add("raw", BinaryType())
    .add("price", DecimalType(38, 10))
    .add("small", ShortType())
    .add("real", FloatType())
    .add("double", DoubleType())
    .add("flag", BooleanType())
    .add("on", DateType())
    .add("at", TimestampType())
    .add("local", TimestampNTZType())
    .add("tags", ArrayType(StringType()))
    .add("pairs", ArrayType(PAIR))
    .add("of", PAIR)
)
VALUES: list[dict[str, Any]] = [
    {
        "Text": 'q"\\\n\u00df \U0001f600',
        "raw": b"\x00\xff",
        "price": Decimal("-1234567890123456789012345678.0123456789"),
        "small": -(2**15),
        "real": 0.5,
        "double": math.inf,
        "flag": True,
        "on": date(1, 1, 1),
        "at": datetime(1500, 2, 28, 23, 59, 59, 999_999, UTC),
        "local": datetime(9999, 12, 31, 23, 59, 59, 999_999),
        "tags": ["a", None, ""],
        "pairs": [Row(n=1, s=None), Row(n=None, s="x")],
        "of": Row(n=-1, s=""),
    },
    {
        "Text": "",
        "raw": b"",
        "price": Decimal("0E-10"),
        "small": 2**15 - 1,
        "real": -0.0,
        "double": 5e-324,
        "flag": False,
        "on": date(9999, 12, 31),
        "at": datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        "local": datetime(1, 1, 1),
        "tags": [],
        "pairs": [],
        "of": Row(n=None, s=None),
    },
    {},
]


def comparable(value: Any) -> Any:
    """Rows are tuples to Spark and dictionaries to Arrow; -0.0 is not 0.0."""
    if isinstance(value, Row):
        return value.asDict(recursive=True)
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return repr(value) if isinstance(value, float) else value


def compared(rows: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {
        key: {name: comparable(value) for name, value in row.items()} for key, row in rows.items()
    }


def whole(*ids: int) -> list[dict[str, Any]]:
    empty = dict.fromkeys(WIDE.names)
    return [empty | {"id": i} | values for i, values in zip(ids, VALUES, strict=True)]


def test_what_one_writes_the_other_reads(spark: SparkSession, tmp_path: Path) -> None:
    table = Opened(spark, tmp_path, WIDE)
    ours, sparks = whole(1, 2, 3), whole(11, 12, 13)
    table.small(*(upsert(LSN, i, **row) for i, row in enumerate(ours)))
    table.large(*(upsert(LSN, i, **row) for i, row in enumerate(sparks)))
    expected = compared({row["id"]: row for row in [*ours, *sparks]})
    for key, row in compared(table.scanned()).items():
        assert row == expected[key]
    found = compared(table.by_spark())
    for row in found.values():  # Spark gives an instant in the zone of the process
        row["at"] = expected[row["id"]]["at"] if row["at"] is not None else None
    assert found == expected
    instants = spark.read.format("delta").load(table.path).selectExpr("id", "unix_micros(at)")
    micros = {row[0]: row[1] for row in instants.collect()}
    for row in (*ours[:2], *sparks[:2]):
        since = row["at"] - datetime(1970, 1, 1, tzinfo=UTC)
        assert micros[row["id"]] == since // timedelta(microseconds=1)


def test_each_goes_on_where_the_other_was(spark: SparkSession, tmp_path: Path) -> None:
    table = Opened(spark, tmp_path, NAMES)
    table.large(*(upsert(LSN, i, id=i, name="first") for i in range(8)))
    table.small(upsert(LSN + 8, id=1, name="small"), delete(LSN + 8, 2, id=2))
    table.large(upsert(LSN + 9, id=3, name="large"), delete(LSN + 9, 2, id=4))  # marks rows
    table.small(upsert(LSN + 10, id=5, name="small"), upsert(LSN + 10, 2, id=9, name="new"))
    table.small(upsert(LSN + 1, id=3, name="late"), delete(LSN + 1, 2, id=5))
    table.large(upsert(LSN + 1, id=1, name="late"), delete(LSN + 1, 2, id=9))
    names = {0: "first", 1: "small", 3: "large", 5: "small", 6: "first", 7: "first", 9: "new"}
    for rows in (table.scanned(), table.by_spark()):
        assert {key: row["name"] for key, row in rows.items()} == names
    assert table.feed.rows()[(5,)].position == Position(LSN + 10, 1)


def test_a_checkpoint_of_the_log_forgets_no_marked_row_and_no_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Opened(spark, tmp_path, NAMES)
    table.large(*(upsert(LSN, i, id=i, name="first") for i in range(8)))
    table.large(upsert(LSN + 9, id=3, name="large"), delete(LSN + 9, 2, id=4))  # marks rows
    DeltaTable(table.path).create_checkpoint()
    log = Path(table.path, "_delta_log")
    for file in log.glob("*.json"):
        if int(file.stem) < table.version:
            file.unlink()  # as a cleanup does: the checkpoint is all there is
    logs: Any = spark.sparkContext
    logs._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    names = {i: "large" if i == 3 else "first" for i in range(8) if i != 4}
    for rows in (table.scanned(), table.by_spark()):
        assert {key: row["name"] for key, row in rows.items()} == names
    table.feed.number = 0  # numbers that are taken
    table.small(upsert(LSN + 20, id=0, name="not again"))
    table.large(upsert(LSN + 20, id=0, name="not again"))
    assert {key: row["name"] for key, row in table.by_spark().items()} == names


def test_an_unchanged_value_is_kept_or_missed(spark: SparkSession, tmp_path: Path) -> None:
    columns = NAMES.add("note", StringType())
    table = Opened(spark, tmp_path, columns)
    table.small(upsert(LSN, id=1, name="kept", note="a"), upsert(LSN, 2, id=2, name="b", note="b"))
    keeping = upsert(LSN + 1, id=1, note="A", unchanged=["name"])
    table.small(keeping, upsert(LSN + 1, 2, id=2, name="B", note="b"), delete(LSN + 1, 3, id=7))
    assert table.scanned() == {
        1: {"id": 1, "name": "kept", "note": "A"},
        2: {"id": 2, "name": "B", "note": "b"},
    }
    before = table.version
    with pytest.raises(ViewError, match=r"1 changed row.*Rebuild the view"):
        table.feed.apply(keeping, upsert(LSN + 2, id=8, unchanged=["name"]))
    with pytest.raises(ViewError, match="a row's key is null"):
        table.feed.apply(upsert(LSN + 2, name="nobody"))
    assert table.version == before, "something of a refused batch was written"


def test_a_number_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    table = Opened(spark, tmp_path, NAMES)
    table.small(upsert(LSN, id=1, name="a"))
    rows = batch_rows(spark, NAMES, [upsert(LSN + 1, id=1, name="b")]).toArrow()
    held = table.version
    for number, version in [(1, held), (2, held + 1), (2, held + 1), (1, held + 1)]:
        numbered = Transaction(f"headwater:v:{table.feed.generation}", number)
        merge("v", table.path, rows, ["id"], numbered)
        assert table.version == version
    table.feed.number = 1
    table.large(upsert(LSN + 2, id=1, name="not again"))  # number 2, as Spark sees it
    assert table.scanned()[1]["name"] == "b"


def test_another_writer_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Opened(spark, tmp_path, NAMES)
    table.small(upsert(LSN, id=1, name="a"))
    rows = batch_rows(spark, NAMES, [upsert(LSN + 1, id=1, name="b")]).toArrow()
    stale = DeltaTable(table.path)
    table.small(upsert(LSN + 2, id=1, name="other"))
    monkeypatch.setattr("jobs.sinks.delta.small_merge.table_at", lambda _path: stale)
    with pytest.raises(RetryableError, match="another writer changed"):
        merge("v", table.path, rows, ["id"], None)
    assert table.scanned()[1]["name"] == "other"
