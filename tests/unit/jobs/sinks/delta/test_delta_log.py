"""What a commit of our own takes from a Delta table's log."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.sinks.delta.log import adds, marked


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
