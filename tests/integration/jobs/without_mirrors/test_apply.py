"""Views over a real Kafka, with events written by hand and a sink that records."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.events.codes import PLACEHOLDER
from cdc.kafka.broker import Broker
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.topics import view_group
from jobs.sinks.contract import Batch
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import delete, event, snapshot, truncate
from tests.support.events.written_topics import V1, V2, Log, row, v1, v2
from tests.support.views.recording_sink import RecordingSink, apply_now, configured
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def running(spark: SparkSession, config: Config) -> Iterator[Callable[..., RecordingSink]]:
    """Start the view ``v`` continuously; stopped at the end of the test, without error."""
    stopping = threading.Event()
    failed: dict[str, HeadwaterError] = {}
    threads = []

    def start() -> RecordingSink:
        sink = RecordingSink()

        def run() -> None:
            failed.update(apply_views(spark, config, ["v"], stopping, sinks={"v": sink}))

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return sink

    yield start
    stopping.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failed


def test_a_view_holds_the_last_state_of_every_row(
    spark: SparkSession, log: Log, config: Config
) -> None:
    log.write(
        *(snapshot(10, row(i, f"read {i}"), V1.schema_id()) for i in range(20)),
        v1(11, 1, row(3, "changed"), "u"),
        *delete(12, 1, row(4, None), V1.schema_id()),
        v1(13, 1, row(100, "created")),
    )
    sink = RecordingSink()
    assert apply_now(spark, config, v=sink) == {}
    values = sink.values()
    assert len(values) == 20
    assert (values[3]["body"], values[100]["body"]) == ("changed", "created")
    assert 4 not in values
    assert sink.closed


def test_a_row_read_before_its_delete_stays_away_after_an_outage(
    spark: SparkSession, log: Log, config: Config, tmp_path: Path
) -> None:
    """As `headwater table add` brings it; the store has forgotten by then what was deleted."""
    log.write(v1(9, 1, row(1, "there")), v1(9, 2, row(2, "there")))
    log.write(*delete(12, 1, row(1, None), V1.schema_id()))
    sink = RecordingSink()
    assert apply_now(spark, config, v=sink) == {}
    sink.rows = {key: held for key, held in sink.rows.items() if held[1] is not None}
    for commit in tmp_path.rglob("commits/*"):
        os.utime(commit, times=(time.time() - 90_000,) * 2)
    log.write(*(snapshot(11, row(i, "read"), V1.schema_id()) for i in (1, 2)))
    assert apply_now(spark, config, v=sink) == {}
    assert {id_: one["body"] for id_, one in sink.values().items()} == {2: "read"}


def test_a_column_that_is_filled_up_with_more_blanks_stops_the_view(
    spark: SparkSession, log: Log, config: Config
) -> None:
    """No event tells of the rows that it rewrites; as the key they would be there twice."""
    char = TypeInfo(1042, "pg_catalog", "bpchar", "base", "bpchar")
    three, eight = (
        Relation(
            1, "public", "t", "d", (V1.columns[0], Column("body", char, n + 4, False)), ("id",)
        )
        for n in (3, 8)
    )
    sink = RecordingSink()
    for relation, body in ((three, "a  "), (eight, "a       ")):
        log.describe(relation)
        log.write(
            event(relation.columns[1].typmod, 1, row(1, body), schema_id=relation.schema_id())
        )
        failed = apply_now(spark, config, v=sink)
    assert "column 'body' of public.t was char(3) and is char(8) now" in str(failed["v"])
    assert sink.values()[1]["body"] == "a  "


def test_a_topic_that_was_recreated_is_not_read_on_from_the_old_offset(
    spark: SparkSession, log: Log, config: Config
) -> None:
    log.write(*(v1(10 + i, 1, row(i, "old")) for i in range(20)))
    sink = RecordingSink()
    assert apply_now(spark, config, v=sink) == {}
    with Broker(log.bootstrap) as broker:
        broker.delete_topics([log.topic])
        wait_until(lambda: not broker.partitions([log.topic]), "the topic to be gone")
    again = Log(log.bootstrap, log.source)
    again.write(*(v1(100 + i, 1, row(i, "new")) for i in range(60)))
    for _ in range(2):
        (error,) = apply_now(spark, config, v=sink).values()
        assert f"topic {log.topic} was recreated" in str(error)
        assert "headwater view rebuild v" in str(error)
    assert {one["body"] for one in sink.values().values()} == {"old"}


def test_memory_is_shared_by_the_views_that_are_applied(
    spark: SparkSession, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def records_at_most(_spark: SparkSession, views: int) -> int:
        asked.append(views)
        return 10_000

    monkeypatch.setattr("jobs.without_mirrors.query.records_at_most", records_at_most)
    config = configured(log, tmp_path, v="select * from t", idle="select id from t")
    log.write(v1(1, 1, row(1, "a")))
    sink = RecordingSink()
    assert apply_now(spark, config, v=sink) == {}
    assert asked == [1]
    assert apply_now(spark, config, v=sink, idle=RecordingSink()) == {}
    assert asked[1:] == [2, 2]


def test_each_view_has_a_pool_of_its_own_in_a_fair_session(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """So the many tasks of one do not keep those of another waiting until the last is done."""
    context: Any = spark.sparkContext
    scheduler = context._jsc.sc()
    assert scheduler.getSchedulingMode().toString() == "FAIR"
    views = [f"{log.source}_{name}" for name in ("first", "second", "third")]
    config = configured(log, tmp_path, **dict.fromkeys(views, "select * from t"))
    pools: dict[str, str | None] = {}

    def note(batch: Batch) -> None:
        pools[batch.view] = context.getLocalProperty("spark.scheduler.pool")

    assert not any(scheduler.getPoolForName(view).isDefined() for view in views)
    log.write(*(v1(1, i, row(i, "a")) for i in range(1, 9)))
    sinks = {view: RecordingSink(before_apply=note) for view in views}
    assert apply_now(spark, config, **sinks) == {}
    assert pools == {view: view for view in views}
    for view in views:  # it is there when tasks were put into it
        pool = scheduler.getPoolForName(view).get()
        assert pool.parent().schedulingMode().toString() == "FAIR"
        assert len(sinks[view].values()) == 8


def test_changes_reach_a_running_view_and_its_offsets_the_group(
    log: Log, running: Callable[..., RecordingSink]
) -> None:
    sink = running()
    with Broker(log.bootstrap) as broker:

        def reached() -> None:
            ends = broker.end_offsets([log.topic])
            group, topics = view_group("v"), [log.topic]
            wait_until(lambda: broker.committed(group, topics) == ends, f"the group at {ends}")

        reached()  # of a topic that is empty, too: `wait` sees from it that the view is built
        log.write(v1(1, 1, row(1, "a")))
        wait_until(lambda: 1 in sink.values(), "the first row")
        log.write(v1(2, 1, row(1, "b"), "u"), v1(2, 2, row(2, "c")))
        wait_until(lambda: sink.values().get(2) is not None, "the second row")
        reached()
    assert sink.values()[1]["body"] == "b"


def test_a_column_added_while_the_view_runs_is_added_to_it(
    log: Log, running: Callable[..., RecordingSink]
) -> None:
    sink = running()
    log.write(v1(1, 1, row(1, "a")))
    wait_until(lambda: 1 in sink.values(), "the first row")
    log.describe(V2)
    log.write(v1(2, 1, row(2, "old")), v2(3, 1, row(3, "new", n=5_000_000_000)))
    wait_until(lambda: 3 in sink.values(), "a row with the new column")
    assert sink.values()[3]["n"] == 5_000_000_000
    assert [columns.names for columns in sink.columns] == [["id", "body"], ["id", "body", "n"]]


def test_a_dropped_column_that_the_view_names_stops_it_with_both_schemas(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    config = configured(log, tmp_path, v="select id, body from t", other="select id from t")
    sinks = {"v": RecordingSink(), "other": RecordingSink()}
    failed: dict[str, HeadwaterError] = {}
    stopping = threading.Event()

    def run() -> None:
        failed.update(apply_views(spark, config, list(sinks), stopping, sinks=sinks))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        log.write(v1(1, 1, row(1, "a")))
        wait_until(lambda: 1 in sinks["v"].values(), "the first row")
        gone = Relation(1, "public", "t", "d", V1.columns[:1], ("id",))
        log.describe(gone)
        log.write(event(2, 1, {"id": 2}, schema_id=gone.schema_id()))
        wait_until(lambda: sinks["v"].closed, "the view to stop")
        wait_until(lambda: 2 in sinks["other"].values(), "the other view to go on")
    finally:
        stopping.set()
        thread.join(120)
    assert list(failed) == ["v"]
    assert "body: public.t has no such column" in str(failed["v"])
    assert "public.t lost body text" in str(failed["v"])
    again = apply_views(spark, config, ["v"], threading.Event(), sinks={"v": RecordingSink()})
    assert str(again["v"]) == str(failed["v"])  # a process that never saw what it was


def test_a_replayed_batch_changes_nothing(
    spark: SparkSession, log: Log, config: Config, tmp_path: Path
) -> None:
    log.write(v1(1, 1, row(1, "a")), v1(2, 1, row(2, "b")), *delete(3, 1, row(1, None), V1_ID))
    sink = RecordingSink()
    apply_now(spark, config, v=sink)
    before, (commit,) = dict(sink.rows), list(tmp_path.glob("*/v/checkpoint/commits/0"))
    commit.unlink()
    commit.with_name(".0.crc").unlink(missing_ok=True)
    apply_now(spark, config, v=sink)
    assert [batch.number for batch in sink.batches] == [0, 0]
    assert len({batch.generation for batch in sink.batches}) == 1
    assert sink.rows == before


V1_ID = V1.schema_id()


def test_a_lost_checkpoint_is_a_new_generation_and_changes_nothing(
    spark: SparkSession, log: Log, config: Config, tmp_path: Path
) -> None:
    log.write(v1(1, 1, row(1, "a")), v1(2, 1, row(1, "b"), "u"))
    sink = RecordingSink()
    apply_now(spark, config, v=sink)
    before = dict(sink.rows)
    (checkpoint,) = tmp_path.glob("*/v/checkpoint")
    shutil.rmtree(checkpoint)
    apply_now(spark, config, v=sink)
    assert sink.rows == before
    assert len({batch.generation for batch in sink.batches}) == 2


def test_truncate_removes_what_was_before_it_and_nothing_after(
    spark: SparkSession, log: Log, config: Config
) -> None:
    log.write(*(v1(1, i, row(i, "before")) for i in range(1, 9)))
    sink = RecordingSink()
    apply_now(spark, config, v=sink)
    log.write(
        v1(2, 1, row(20, "in the same batch")), truncate(3, 1, V1_ID), v1(3, 2, row(21, "after"))
    )
    apply_now(spark, config, v=sink)
    assert sink.values() == {21: row(21, "after")}


def test_unchanged_toast_is_filled_or_left_to_the_store(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.describe(V2)
    config = configured(log, tmp_path, v="select id, body, n + 1 as m from t")
    log.write(v2(1, 1, row(1, "kept", n=1)))
    sink = RecordingSink()
    apply_now(spark, config, v=sink)
    log.write(
        v2(2, 1, row(1, PLACEHOLDER, n=2), "u"),
        v2(3, 1, row(2, "filled", n=1)),
        v2(4, 1, row(2, PLACEHOLDER, n=2), "u"),
    )
    assert apply_now(spark, config, v=sink) == {}
    assert sink.values() == {1: row(1, "kept", m=3), 2: row(2, "filled", m=3)}
