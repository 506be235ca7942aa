"""Which events of a batch are the poison: those whose values an expression does not take."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from jobs.without_mirrors.dead_letters import bisection as isolating
from jobs.without_mirrors.dead_letters.bisection import isolate
from jobs.without_mirrors.evaluation import evaluate
from tests.support.events.events import event, kafka_frame
from tests.support.views.parked_view import model_of


@pytest.mark.parametrize("few", [0, 5_000])
def test_the_last_event_of_each_key_that_fails_is_found(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Also by a column that nothing counts, and in batches of which Spark compiles the plans."""
    monkeypatch.setattr(isolating, "FEW_ROWS", few)
    model = model_of("select id, n, body::int as number from t")
    bodies = {5: "x", 11: "1.5", 17: "9" * 20}
    records = [event(i, 1, {"id": i, "body": bodies.get(i, "7"), "n": i}) for i in range(1, 23)]
    records.append(event(30, 1, {"id": 11, "body": "8", "n": 1}))  # which is overtaken
    frame = kafka_frame(spark, records)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT") as raised:
        evaluate(model, frame)
    found = isolate(model, frame, raised.value, 100)
    assert sorted(one.record for one in found) == ["events-0-16", "events-0-4"]
    assert all("CAST_INVALID_INPUT" in one.cause for one in found)
