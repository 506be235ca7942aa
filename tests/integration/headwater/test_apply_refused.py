"""Views that are refused, or ended by a fault: alone, with what is wrong, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from cdc.config import Config
from cdc.errors import RetryableError, ViewError
from cdc.events.codes import PLACEHOLDER
from jobs.generations.last_error import stopped
from jobs.generations.view_state import view_directory
from jobs.sinks.contract import Batch
from tests.support.events.written_topics import Log, row, v1
from tests.support.views.recording_sink import RecordingSink, apply_now, configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def test_a_view_that_fails_stops_alone(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    config = configured(
        log,
        tmp_path,
        good="select id from t",
        bad="select id, upper(body) as b from t",
        wrong="select id, x from t",
    )
    first = config.apply.model_copy(update={"dlq_limit": 0})
    config = config.model_copy(update={"apply": first})
    log.write(v1(1, 1, row(1, PLACEHOLDER), "u"))
    sinks = {name: RecordingSink() for name in config.views}
    failed = apply_now(spark, config, **sinks)
    assert sorted(failed) == ["bad", "wrong"]
    assert isinstance(failed["bad"], ViewError)
    assert "REPLICA IDENTITY FULL" in str(failed["bad"])
    assert "no such column" in str(failed["wrong"])
    assert sinks["good"].values() == {1: {"id": 1}}


def test_a_sink_that_fails_is_given_the_batch_again(
    spark: SparkSession, log: Log, config: Config
) -> None:
    log.write(v1(1, 1, row(1, "a")))

    def refuse(_batch: Batch) -> None:
        raise ViewError("refused")

    failed = apply_now(spark, config, v=RecordingSink(refuse))
    assert str(failed["v"]) == "refused"
    directory = view_directory(config.apply.state, config.source.name, "v")
    note = stopped(directory)
    assert note is not None
    assert note.fault == "refused"

    def fail(_batch: Batch) -> None:
        raise AttributeError("confidential")

    with capture_logs() as lines:
        assert list(apply_now(spark, config, v=RecordingSink(fail))) == ["v"]
    (where,) = (line["trace"] for line in lines if line["event"] == "view_stopped")
    assert "in fail\n" in where, "the batch's own trace, not that of whoever waits for it"
    sink = RecordingSink()
    assert apply_now(spark, config, v=sink) == {}
    assert sink.values() == {1: row(1, "a")}
    assert stopped(directory) is None


def test_a_store_that_was_waited_for_in_vain_may_come_back(
    spark: SparkSession, log: Log, config: Config
) -> None:
    """So whoever waits for the view goes on waiting: for somebody who applies it."""

    class Away(RecordingSink):
        def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
            raise RetryableError(f"Redis does not answer: {columns.names}, {key}")

    log.write(v1(1, 1, row(1, "a")))
    failed = apply_now(spark, config, v=Away())
    assert str(failed["v"]).startswith("Redis does not answer: ")
    assert stopped(view_directory(config.apply.state, config.source.name, "v")) is None


def test_a_new_view_over_a_trimmed_topic_is_refused(
    spark: SparkSession, log: Log, config: Config
) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    log.write(*(v1(i, 1, row(i, "a")) for i in range(1, 9)))
    admin = KafkaAdminClient(bootstrap_servers=log.bootstrap)
    admin.delete_records({TopicPartition(log.topic, 0): 1})
    admin.close()
    failed = apply_now(spark, config, v=RecordingSink())
    assert f"{log.topic}-0 begins at 1" in str(failed["v"])
    assert "Run `headwater view create v`" in str(failed["v"])


def test_a_changed_declaration_is_refused_once_applied(
    spark: SparkSession, log: Log, config: Config, tmp_path: Path
) -> None:
    log.write(v1(1, 1, row(1, "a")))
    apply_now(spark, config, v=RecordingSink())
    changed = configured(log, tmp_path, v="select id from t")
    failed = apply_now(spark, changed, v=RecordingSink())
    assert "sql changed" in str(failed["v"])


def test_a_table_that_is_not_captured_is_named(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    config = configured(log, tmp_path, v="select * from missing")
    failed = apply_now(spark, config, v=RecordingSink())
    assert "public.missing is not captured" in str(failed["v"])
