"""What Spark does to evaluate few rows: it compiles nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.spark.interpreter import interpreted
from jobs.spark.session import session_beside
from jobs.without_mirrors.evaluation import Model
from tests.support.events.events import event, kafka_frame
from tests.support.views.parked_view import TABLE
from views.parse.definition import parse_view
from views.spark.resolution import resolve

_WHOLE_STAGE = "spark.sql.codegen.wholeStage"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """With settings of its own: those of Spark, which compiles."""
    made = session_beside(spark)
    for name in (_WHOLE_STAGE, "spark.sql.codegen.factoryMode"):
        made.conf.unset(name)
    return made


def compiled(session: SparkSession) -> int:
    """How many classes Spark has compiled so far."""
    runtime: Any = session.sparkContext._jvm
    metrics = getattr(runtime, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


@pytest.mark.parametrize("few", [True, False])
def test_few_records_are_evaluated_without_the_compiler(session: SparkSession, few: bool) -> None:
    counts = []
    # Other expressions are other code. Of a new shape, Spark compiles how buffers are joined.
    for depth in (3, 5):
        sql = f"select id, {'reverse(' * depth}body{')' * depth} as body from t where n <> {depth}"
        model = Model(resolve(parse_view("v", "s", ["id"], sql), TABLE), {TABLE.schema_id: TABLE})
        records = kafka_frame(session, [event(10, 1, {"id": 1, "body": "xy", "n": 1})])
        before = compiled(session)
        with interpreted(session, few):
            held = model.rows(records).toArrow()
        counts.append(compiled(session) - before)
        assert held.column("body").to_pylist() == ["yx"]
    assert (counts[1] == 0) == few


@pytest.mark.parametrize("was", [None, "true"])
def test_the_settings_are_as_they_were_also_after_a_fault(
    session: SparkSession, was: str | None
) -> None:
    session.conf.set("spark.sql.codegen.maxFields", "99")
    if was is not None:
        session.conf.set(_WHOLE_STAGE, was)
    before = session.conf.getAll

    def fail() -> None:
        with interpreted(session):
            assert session.conf.get(_WHOLE_STAGE) == "false"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert session.conf.getAll == before


def test_many_rows_are_left_to_the_compiler(session: SparkSession) -> None:
    before = session.conf.getAll
    with interpreted(session, few=False):
        assert session.conf.getAll == before
