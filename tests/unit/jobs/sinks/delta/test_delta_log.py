"""What a commit of our own takes from a Delta table's log."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.sinks.delta.log import adds, checkpoint_is_due, marked


def test_statistics_that_a_checkpoint_has_as_columns_stay_out_of_commits(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    add = {
        "path": "a.parquet",
        "partitionValues": [],
        "size": 7,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":2}',
        "stats_parsed": {"numRecords": 2, "minValues": {"price": Decimal("1.50")}},
    }
    kind = pa.struct(
        {
            "path": pa.string(),
            "partitionValues": pa.map_(pa.string(), pa.string()),
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
            "stats_parsed": pa.struct(
                {
                    "numRecords": pa.int64(),
                    "minValues": pa.struct({"price": pa.decimal128(10, 2)}),
                }
            ),
        }
    )
    table = pa.table({"add": pa.array([add], kind)})
    pq.write_table(table, log / f"{10:020}.checkpoint.parquet")
    (found,) = adds(tmp_path, 10, {"a.parquet"}).values()
    actions = marked(found, {"storageType": "u"}, 2)
    (changed,) = [one["add"] for one in map(json.loads, map(json.dumps, actions)) if "add" in one]
    assert "stats_parsed" not in changed
    assert json.loads(changed["stats"])["numRecords"] == 2
    assert changed["partitionValues"] == {}


_KB = 1 << 10


@pytest.mark.parametrize(
    ("size", "commits", "each", "due"),
    [
        (100 * _KB, 10, _KB, True),  # small
        (600 * _KB, 10, 8 * _KB, False),
        (600 * _KB, 70, 8 * _KB, False),
        (600 * _KB, 80, 8 * _KB, True),  # as much was committed
        (6000 * _KB, 90, 8 * _KB, False),
        (6000 * _KB, 100, 8 * _KB, True),  # as much as a reader is to read one by one
    ],
)
def test_a_checkpoint_is_made_when_as_much_was_committed_as_it_has(
    tmp_path: Path, size: int, commits: int, each: int, due: bool
) -> None:
    last = {"version": 40, "size": 1, "sizeInBytes": size}
    (tmp_path / "_last_checkpoint").write_text(json.dumps(last))
    for number in range(1, commits + 1):
        (tmp_path / f"{40 + number:020}.json").write_bytes(b" " * each)
    assert checkpoint_is_due(tmp_path, 40 + commits) == due


@pytest.mark.parametrize(
    "last", ["", "{", "[]", '{"version": 40}', '{"version": 90, "sizeInBytes": 1000000}']
)
def test_a_checkpoint_is_made_where_the_last_one_is_not_known(tmp_path: Path, last: str) -> None:
    assert checkpoint_is_due(tmp_path, 50)
    (tmp_path / "_last_checkpoint").write_text(last)
    assert checkpoint_is_due(tmp_path, 50)
