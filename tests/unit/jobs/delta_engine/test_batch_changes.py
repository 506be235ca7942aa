"""What the records before a batch delete, for its late rows of a snapshot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.delta_engine.batch_changes import Folding
from jobs.sinks.contract import COMMIT_LSN
from jobs.without_mirrors.earlier_changes import EarlierChanges
from tests.support.events.events import delete, event, snapshot
from tests.support.views.parked_view import SQL, TABLE, model_of
from tests.unit.jobs.without_mirrors.test_earlier_changes import Topic

AT = "s.public.t"


def test_late_rows_of_one_batch_after_the_other_read_the_topic_once(spark: SparkSession) -> None:
    topic = Topic(spark, [snapshot(10, {"id": i, "body": "", "n": 0}) for i in range(50)])
    topic.records += delete(20, 1, {"id": 1})
    topic.records += [*delete(21, 1, {"id": 2}), event(22, 1, {"id": 2, "body": "", "n": 0})]
    topic.records += [*delete(23, 1, {"id": 3}), snapshot(10, {"id": 3, "body": "", "n": 0})]
    nobody: Any = None
    parking: Any = SimpleNamespace(history=lambda records: records)
    name = TABLE.name
    folding = Folding(
        spark, nobody, {name: AT}, {name: model_of(SQL)}, {}, parking,
        {name: EarlierChanges(topic.between)},
    )  # fmt: skip
    keys = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32())})
    for at, gone in ((54, {1: 20, 2: 21}), (58, {1: 20, 3: 23}), (58, {1: 20, 3: 23})):
        found = folding._deleted(name, {AT: {0: at}}, keys)
        assert (
            dict(zip(found["id"].to_pylist(), found[COMMIT_LSN].to_pylist(), strict=True)) == gone
        )
    assert topic.read < 2 * 58
