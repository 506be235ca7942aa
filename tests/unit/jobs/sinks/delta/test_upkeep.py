"""When the files of tables are looked after, and what becomes of a fault; mirrors for real."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType
from structlog.testing import capture_logs

from jobs.delta_engine.mirrors.mirror import SMALL_FILES, Mirror
from jobs.sinks.delta.table import has_older_files
from jobs.sinks.delta.upkeep import Upkeep

HOUR_S = 3600


def upkeep(done: list[str], every: int, now: list[float], fault: str = "") -> Upkeep:
    def do(what: str) -> int:
        if what == fault:
            raise ValueError("a value")
        done.append(what)
        return 3

    return Upkeep(
        "v", "t", every, lambda: do("compact"), lambda: done.extend(["vacuum"] * (do("v") // 3)),
        HOUR_S, lambda: now[0],
    )  # fmt: skip


def test_files_are_looked_at_once_in_so_many_batches_and_vacuumed_by_the_clock() -> None:
    done, now = list[str](), [0.0]
    one = upkeep(done, 3, now)
    for _ in range(5):
        one.after_batch()
    assert done == ["compact", "v", "vacuum"]
    one.after_batch()
    assert done[3:] == ["compact"]
    now[0] = HOUR_S
    for _ in range(3):
        one.after_batch()
    assert done[4:] == ["compact", "v", "vacuum"]


def test_none_is_looked_at_where_that_is_switched_off() -> None:
    done = list[str]()
    one = upkeep(done, 0, [0.0])
    for _ in range(50):
        one.after_batch()
    assert not done


@pytest.mark.parametrize(("fault", "left"), [("compact", []), ("v", ["compact"])])
def test_a_fault_is_told_and_tried_again(fault: str, left: list[str]) -> None:
    done = list[str]()
    one = upkeep(done, 1, [0.0], fault)
    with capture_logs() as lines:
        one.after_batch()
        one.after_batch()
    assert done == left * 2
    failed = [line for line in lines if line["event"] == "upkeep_failed"]
    assert [line["cause"] for line in failed] == ["ValueError"] * 2
    assert "a value" not in str(lines)


def test_a_mirror_s_files_are_joined_and_old_ones_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = StructType().add("id", LongType()).add("name", StringType())
    mirror = Mirror(spark, tmp_path / "m", columns, ("id",))
    assert mirror.prepare()
    for lsn in range(SMALL_FILES + 100):
        row = {"id": lsn % 7, "name": f"n{lsn}", "__deleted": False}
        versions = pa.Table.from_pylist([row | {"__commit_lsn": lsn, "__ordinal": 1}])
        mirror.append(versions.cast(mirror.arrow), lsn + 1)
        if lsn == SMALL_FILES - 2:
            assert mirror.compact() == 0
    before = sorted(mirror.frame().collect())
    wanted = pa.table({"id": pa.array([3], pa.int64())})
    found = mirror.find(wanted, upto=50).to_pylist()
    assert mirror.compact() == SMALL_FILES + 99
    table = tmp_path / "m"
    assert len(DeltaTable(table).file_uris()) == 1
    mirror.vacuum()
    assert len(list(table.glob("*.parquet"))) > SMALL_FILES  # they are younger than an hour
    at_once = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    DeltaTable(table).alter.set_table_properties(at_once)
    mirror.vacuum()
    assert len(list(table.glob("*.parquet"))) == 1
    assert sorted(mirror.frame().collect()) == before
    assert mirror.find(wanted, upto=50).to_pylist() == found


def test_a_mirror_of_before_is_looked_after_like_a_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = StructType().add("id", LongType())
    mirror = Mirror(spark, tmp_path / "m", columns, ("id",))
    mirror.prepare()
    kept = DeltaTable(tmp_path / "m").metadata().configuration
    DeltaTable(tmp_path / "m").alter.set_table_properties(dict.fromkeys(kept, "interval 30 days"))
    assert not mirror.prepare()
    assert DeltaTable(tmp_path / "m").metadata().configuration == kept


def test_only_a_table_with_files_of_that_age_is_vacuumed(tmp_path: Path) -> None:
    """Those of its log do not count."""
    old = time.time() - 1_000
    for name in ("_delta_log/0.json", "a.parquet", "city=x/b.parquet"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    os.utime(tmp_path / "_delta_log/0.json", (old, old))
    assert not has_older_files(tmp_path, 900)
    os.utime(tmp_path / "city=x/b.parquet", (old, old))
    assert has_older_files(tmp_path, 900)
    assert not has_older_files(tmp_path, 1_100)
