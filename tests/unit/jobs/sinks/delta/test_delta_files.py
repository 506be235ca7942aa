"""Small files of a Delta table joined without Spark: which, what they hold then, who was faster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from jobs.sinks.delta import compaction as delta_files
from jobs.sinks.delta.compaction import RUN_BYTES, join_files, joinable
from jobs.sinks.delta.log import commit

MB = 1 << 20


def append(path: Path, *ids: int, **values: Any) -> None:
    rows = {"id": list(ids), "name": [f"n{id_}" for id_ in ids], **values}
    write_deltalake(str(path), pa.table(rows), mode="append", schema_mode="merge")


def rows_of(path: Path) -> list[dict[str, Any]]:
    found = pa.table(DeltaTable(str(path)).to_pyarrow_table()).to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def test_small_files_are_joined_up_to_one_that_is_larger_than_they_together() -> None:
    assert joinable({"b": 10, "a": 20, "c": MB}) == ["b", "a", "c"]
    assert joinable({"a": MB, "b": MB, "c": 2 * MB, "d": 9 * MB}) == ["a", "b", "c"]
    tenths = {str(number): RUN_BYTES // 10 for number in range(30)}
    assert len(joinable(tenths)) == 10
    assert joinable({"tiny": 10, "large": 9 * MB}) == ["tiny"]
    assert joinable({}) == []


def test_rows_stand_in_one_file_and_nothing_has_changed_for_who_follows_the_table(
    tmp_path: Path,
) -> None:
    for id_ in range(5):
        append(tmp_path, id_, id_ + 10)
    append(tmp_path, 50, price=[1.5])  # the others have no such column
    before = rows_of(tmp_path)
    assert join_files(str(tmp_path), 6) == 0
    assert join_files(str(tmp_path), 5) == 5
    table = DeltaTable(str(tmp_path))
    assert len(table.file_uris()) == 1
    assert rows_of(tmp_path) == before
    line = (tmp_path / "_delta_log" / f"{table.version():020}.json").read_text().splitlines()
    actions = [action for one in line for action in json.loads(one).values()]
    assert actions[0]["operation"] == "OPTIMIZE"
    assert [action["dataChange"] for action in actions[1:]] == [False] * 7
    assert join_files(str(tmp_path), 1) == 0


def test_marked_rows_are_left_out_and_spark_reads_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"create table delta.`{path}` (id bigint, name string, at timestamp, left array<int>) "
        "using delta tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    for first in (0, 100):
        spark.sql(
            f"insert into delta.`{path}` select /*+ coalesce(1) */ id, 'n' || id, timestamp"
            f"'2024-01-01 00:00:00.000001', array(1, null) from range({first}, {first + 50})"
        )
    spark.sql(f"delete from delta.`{path}` where id in (3, 110)")
    assert pa.table(DeltaTable(path).deletion_vectors().read_all()).num_rows == 2
    assert join_files(path, 1) == 1
    assert not pa.table(DeltaTable(path).deletion_vectors().read_all()).num_rows
    held = spark.read.format("delta").load(path).orderBy("id").collect()
    assert [row.id for row in held] == [
        i for i in (*range(50), *range(100, 150)) if i not in (3, 110)
    ]
    assert held[-1].asDict() == held[0].asDict() | {"id": 149, "name": "n149"}
    assert held[0].left == [1, None]


def test_who_commits_meanwhile_wins_and_it_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id_ in range(3):
        append(tmp_path, id_)

    def late(*args: Any) -> None:
        append(tmp_path, 7)
        commit(*args)

    monkeypatch.setattr(delta_files, "commit", late)
    assert join_files(str(tmp_path), 1) == 0
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2, 7]
    files = set(DeltaTable(str(tmp_path)).file_uris())
    assert {file.name for file in tmp_path.glob("*.parquet")} == {Path(one).name for one in files}
    monkeypatch.undo()
    assert join_files(str(tmp_path), 1) == 3
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2, 7]


def test_a_table_that_delta_rs_does_not_know_is_left_to_spark(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    write_deltalake(str(tmp_path), rows, partition_by=["day"])
    assert join_files(str(tmp_path), 1) is None
    assert join_files("s3://somewhere/t", 1) is None
