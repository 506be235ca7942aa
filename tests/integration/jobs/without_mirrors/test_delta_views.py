"""Views in Delta over a real Kafka: their history, and tables that change under them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError

from bootstrap.build import build
from bootstrap.switch import switch
from cdc.config import Config, Delta
from cdc.errors import HeadwaterError, ViewError
from cdc.events.codes import PLACEHOLDER
from cdc.protocol.relation import Column, Relation
from jobs.batch.thresholds import FEW_ROWS
from jobs.without_mirrors.dead_letters.retry import names, retry
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import Record, delete, event, snapshot, truncate
from tests.support.events.written_topics import INT4, INT8, V1, V2, Log, row, v1, v2
from tests.support.views.bootstraps import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.views.snapshot_log import Table


@pytest.fixture
def log(kafka: str, source_name: str) -> Log:
    return Log(kafka, source_name)


def configured(log: Log, home: Path, **views: dict[str, Any]) -> Config:
    return Config.model_validate(
        {
            "source": {"name": log.source, "dsn": "dbname=unused", "tables": ["public.t"]},
            "kafka": {"bootstrap_servers": log.bootstrap},
            "stores": {"lake": {"kind": "delta", "path": str(home / "lake")}},
            "views": {name: {"store": "lake", "key": ["id"], **of} for name, of in views.items()},
            "apply": {"state": str(home / "state"), "retry_s": 5},
        }
    )


def apply_now(spark: SparkSession, config: Config) -> dict[str, HeadwaterError]:
    return apply_views(spark, config, list(config.views), threading.Event(), True)


def held(spark: SparkSession, home: Path, view: str, *names: str) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(str(home / "lake" / view))
    return sorted(tuple(one) for one in table.select(*names).collect())


@pytest.mark.exhaustive
def test_the_history_of_a_stream_is_kept_over_an_older_checkpoint(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Every change once, those of a parked key when its letters are applied."""
    sql = "select id, body, n from t where n > 0"
    config = configured(log, tmp_path, versions={"sql": sql, "history": "scd2"})
    log.describe(V2)
    log.write(
        v2(5, 1, row(1, "long", n=1)),
        v2(6, 1, row(1, PLACEHOLDER, n=2), "u"),
        v2(6, 2, row(1, PLACEHOLDER, n=3), "u"),
        v2(7, 1, row(2, "b", n=1)),
        *delete(8, 1, row(2, None, n=None), V2.schema_id()),
        v2(8, 2, row(3, "never in the view", n=0)),
        v2(8, 3, row(5, PLACEHOLDER, n=1), "u"),  # of a value that nobody has
        v2(8, 4, row(6, PLACEHOLDER, n=1), "u"),
    )
    assert apply_now(spark, config) == {}
    log.write(snapshot(4, row(5, "read", n=0), V2.schema_id()))  # and here it is, behind it
    log.write(v2(9, 2, row(5, PLACEHOLDER, n=2), "u"))
    log.write(v2(9, 3, row(6, PLACEHOLDER, n=2), "u"))
    log.write(*delete(9, 4, row(6, None, n=None), V2.schema_id()), v2(9, 5, row(6, "new", n=1)))
    assert apply_now(spark, config) == {}
    outcome = retry(spark, config, "versions", None)
    assert ([names(one) for one in outcome.settled], outcome.left) == (['{"id":5}'] * 3, {})
    state = tmp_path / "state"
    shutil.copytree(state, tmp_path / "kept")
    log.write(
        v2(9, 1, row(1, PLACEHOLDER, n=4), "u"),
        v2(10, 1, row(1, PLACEHOLDER, n=0), "u"),
        v2(11, 1, row(4, "d", n=1)),
        truncate(12, 1, V2.schema_id()),
        v2(13, 1, row(4, "again", n=1)),
    )
    assert apply_now(spark, config) == {}
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "kept", state)
    log.write(v2(14, 1, row(4, "again", n=2), "u"))
    assert apply_now(spark, config) == {}
    assert held(spark, tmp_path, "versions", "id", "__commit_lsn", "body", "n", "__to_lsn",
                "__current") == [
        (1, 5, "long", 1, 6, False), (1, 6, "long", 2, 6, False), (1, 6, "long", 3, 9, False),
        (1, 9, "long", 4, 10, False), (2, 7, "b", 1, 8, False), (4, 11, "d", 1, 12, False),
        (4, 13, "again", 1, 14, False), (4, 14, "again", 2, None, True),
        (5, 8, "read", 1, 9, False), (5, 9, "read", 2, 12, False), (6, 9, "new", 1, 12, False),
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_a_history_begins_with_a_snapshot_and_is_not_given_up_unasked(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    lake = Delta(kind="delta", path=str(tmp_path / "lake"))
    setting = Setting(spark, table, lake, tmp_path)
    setting.declare("select * from t", history="log")

    def logged() -> list[tuple[Any, ...]]:
        return held(spark, tmp_path, setting.view, "id", "__commit_lsn", "__op", "body")

    table.write(row(1, "of before"), row(1, "a"), row(2, "b"))  # 1008, 1016, 1024
    setting.snapshots.while_read = lambda: table.write(row(3, "meanwhile"))  # read at 1032
    build(setting.kit())
    table.touch(1)
    table.delete(2)
    setting.apply_now()
    kept = [
        (1, 1032, "r", "a"), (1, 1048, "u", "a"), (2, 1032, "r", "b"), (2, 1056, "d", None),
        (3, 1040, "c", "meanwhile"),
    ]  # fmt: skip
    assert logged() == kept
    with pytest.raises(ViewError, match=r"has history since generation 1, .*--new-history"):
        build(setting.kit())
    other = Delta(kind="delta", path=str(tmp_path / "other"))
    elsewhere = Setting(spark, table, other, tmp_path)
    with pytest.raises(ViewError, match="has history since generation 1"):
        build(elsewhere.kit())
    elsewhere.broker.close()
    setting.snapshots.while_read = lambda: None
    assert build(setting.kit(new_history=True)).generation == 2
    assert logged() == [(1, 1064, "r", "a"), (3, 1064, "r", "meanwhile")]
    table.write(row(3, "later"))
    switch(setting.kit(), 1)
    setting.apply_now()
    assert logged() == [*kept, (3, 1072, "u", "later")]
    assert setting.shown() == setting.expected()
    setting.broker.close()


def relation(*columns: Column) -> Relation:
    return Relation(1, "public", "t", "d", columns, ("id",))


NARROW = relation(Column("id", INT4, -1, True), Column("n", INT4, -1, False))
WIDE = relation(
    Column("id", INT8, -1, True), Column("n", INT8, -1, False), Column("more", INT4, -1, False)
)
NARROW_AGAIN = relation(*WIDE.columns[:1], Column("n", INT4, -1, False), *WIDE.columns[2:])


def written(of: Relation, lsn: int, op: str = "c", **values: int) -> Record:
    return event(lsn, 1, values, op, schema_id=of.schema_id())


@pytest.mark.exhaustive
def test_wider_types_and_more_columns_are_applied_and_others_stop_that_view_alone(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    config = configured(
        log, tmp_path,
        v={"sql": "select * from t"}, kept={"sql": "select * from t", "history": "scd2"},
        other={"sql": "select id from t"},
    )  # fmt: skip
    log.describe(NARROW)
    log.write(written(NARROW, 5, id=1, n=1), written(NARROW, 5, id=2, n=2))
    assert apply_now(spark, config) == {}
    log.describe(WIDE)
    log.write(
        written(WIDE, 6, "u", id=1, n=1 << 40, more=7), written(WIDE, 7, id=1 << 41, n=3, more=8)
    )
    assert apply_now(spark, config) == {}
    rows = [(1, 1 << 40, 7), (2, 2, None), (1 << 41, 3, 8)]
    assert held(spark, tmp_path, "v", "id", "n", "more") == rows
    assert held(spark, tmp_path, "kept", "id", "n", "more", "__current") == sorted(
        [(1, 1, None, False), *((*one, True) for one in rows)], key=str
    )
    log.describe(NARROW_AGAIN)
    log.write(written(NARROW_AGAIN, 8, id=9, n=9, more=9))
    failed = apply_now(spark, config)
    assert sorted(failed) == ["kept", "v"]
    assert "view v: the store holds n bigint, now int" in str(failed["v"])
    assert held(spark, tmp_path, "other", "id") == [(1,), (2,), (9,), (1 << 41,)]


@pytest.mark.exhaustive
def test_a_table_has_no_deletion_vectors_unless_they_are_asked_for(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Also behind updates and deletes: of few rows, and of more than the driver merges."""
    sql = {"sql": "select id, body from t"}
    config = configured(log, tmp_path, v=sql, marked={**sql, "deletion_vectors": True})
    log.describe(V1)
    log.write(*(v1(1, i, row(i, "first")) for i in range(FEW_ROWS + 100)))
    assert apply_now(spark, config) == {}
    log.write(v1(2, 1, row(1, "few"), "u"), *delete(2, 2, row(2, None), V1.schema_id()))
    assert apply_now(spark, config) == {}
    log.write(*(v1(3, i, row(i, "many"), "u") for i in range(100, FEW_ROWS + 100)))
    log.write(*delete(4, 1, row(3, None), V1.schema_id()))
    assert apply_now(spark, config) == {}
    expected = {i: "first" if i < 100 else "many" for i in range(FEW_ROWS + 100)} | {1: "few"}
    del expected[2], expected[3]
    assert dict(held(spark, tmp_path, "v", "id", "body")) == expected
    plain, marked = (DeltaTable(str(tmp_path / "lake" / view)) for view in ("v", "marked"))
    features = plain.protocol().reader_features or []
    assert "deletionVectors" not in features
    assert plain.metadata().configuration["delta.enableDeletionVectors"] == "false"
    read = plain.to_pyarrow_table(columns=["id", "body"]).to_pylist()
    assert {one["id"]: one["body"] for one in read} == expected
    assert len(plain.to_pandas()) == len(expected)
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        marked.to_pyarrow_table()  # it is those that it does not know
