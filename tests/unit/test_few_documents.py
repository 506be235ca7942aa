"""Documents of a small batch, made in the plan that folds it, are those of the batch's rows."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from itertools import product
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc.config import Kafka
from cdc.lsn import Position
from jobs.applying import NOWHERE, Model, news_of
from jobs.schema import PLACEHOLDER
from jobs.sinks.documents import Documents, document_list
from jobs.small.at_hand import brought, news
from jobs.small.prepared import SmallBatches
from tests.events import Record, event, kafka_frame, truncate
from tests.unit.test_prepared import drawn, few, model_of

SQL = "select id, body, n + 1 as n from t where n > 0"
PLACES = (NOWHERE, Position(300, 2), Position(700, 1))


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SmallBatches]:
    made = SmallBatches(spark, Kafka(bootstrap_servers="127.0.0.1:1"))
    yield made
    made.close()


def documents_of(model: Model) -> Documents:
    return Documents(model.columns, ("id",))


def plain(records: list[Record]) -> list[Record]:
    """Without what is not for documents: TRUNCATE, and values that are left out."""
    return [
        (key, value)
        for key, value in records
        if value is not None and b'"op":"t"' not in value and PLACEHOLDER.encode() not in value
    ]


def test_they_are_those_of_the_rows_wherever_the_stream_begins(
    spark: SparkSession, small: SmallBatches
) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    model = model_of(SQL)
    documents = documents_of(model)
    left_out = 0
    for _ in range(4):
        records = few(plain([one for _ in range(40) for one in drawn(random)]))
        found = small.documents(model, documents, records)
        evaluated = small.evaluated(spark, model, records)
        assert found is not None
        assert found[0] is not None
        assert evaluated is not None
        rows, counted = evaluated
        assert found[1] == counted
        for truncated, whole, empty in product(PLACES, PLACES, (False, True)):
            wanted = documents(news_of(rows, truncated, whole, empty)).toArrow()
            given = news(found[0], truncated, whole, empty)
            assert sorted(document_list(given)) == sorted(document_list(wanted))
            left_out += counted.keys - len(given)
    assert left_out > 0


def test_the_list_of_what_is_unchanged_is_never_null(spark: SparkSession) -> None:
    """Of ten thousand nulls in a batch, Spark would walk over half at each row it adds."""
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    model = model_of("select id, body, n from t")
    rows = model.rows(kafka_frame(spark, [one for _ in range(40) for one in drawn(Random(seed))]))
    made = documents_of(model)(news_of(rows, NOWHERE, NOWHERE, False)).toArrow()
    assert len(made) > 0
    assert made.column("unchanged").null_count == 0


def placeless(record: Record) -> Record:
    """What looks like an event, and is none of capture's."""
    key, value = record
    assert value is not None
    document = json.loads(value)
    del document["source"]["commit_lsn"]
    return key, json.dumps(document, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("records", "known"),
    [
        ([truncate(7, 1)], (0, Position(7, 1))),
        ([event(1, 1, {"id": 1, "body": "whole", "n": 1}),
          event(2, 1, {"id": 1, "body": PLACEHOLDER, "n": 1}, "u")], (1, None)),
        ([event(1, 1, {"id": 1, "body": "", "n": "many"})], None),
        ([placeless(event(1, 1, {"id": 1, "body": "", "n": 1}))], None),
    ],
    ids=["truncate", "a gap", "poison", "no position"],
)  # fmt: skip
def test_what_needs_more_than_one_look_is_left_to_the_rows(
    small: SmallBatches, records: list[Record], known: tuple[int, Position | None] | None
) -> None:
    model = model_of(SQL)
    documents = documents_of(model)
    found = small.documents(model, documents, few(records))
    if known is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], found[1].gaps, found[1].truncated) == (None, *known)
    after = small.documents(model, documents, few([event(9, 1, {"id": 5, "body": "b", "n": 1})]))
    assert after is not None
    assert after[0] is not None
    assert [one.id for one in document_list(news(after[0], NOWHERE, NOWHERE, False))] == ["5"]


def test_a_gap_is_filled_by_the_plan_for_it_alone(
    spark: SparkSession, small: SmallBatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, runs = model_of(SQL), list[int]()

    def counted(rows: DataFrame) -> pa.Table | None:
        runs.append(1)
        return brought(rows)

    monkeypatch.setattr("jobs.small.prepared.brought", counted)
    records = few(
        [
            event(1, 1, {"id": 1, "body": "whole", "n": 1}),
            event(2, 1, {"id": 1, "body": PLACEHOLDER, "n": 2}, "u"),
        ]
    )
    filled = small.filled(spark, model, records)
    assert len(runs) == 1
    evaluated = small.evaluated(spark, model, records)
    assert filled is not None
    assert evaluated is not None
    assert filled[0].collect() == evaluated[0].collect()
    assert filled[1] == evaluated[1]


def test_other_columns_are_other_documents(small: SmallBatches) -> None:
    records = few([event(1, 1, {"id": 1, "body": "b", "n": 1})])
    bodies = []
    for sql in ("select id, body from t", "select id, n from t"):
        model = model_of(sql)
        found = small.documents(model, documents_of(model), records)
        assert found is not None
        assert found[0] is not None
        (document,) = document_list(news(found[0], NOWHERE, NOWHERE, True))
        bodies.append(document.body)
    assert bodies == ['{"id":1,"body":"b"}', '{"id":1,"n":1}']


def test_views_that_ended_keep_no_sessions_of_their_own(spark: SparkSession) -> None:
    """Though Spark may keep for long the functions that their batches were given to."""
    gc.collect()
    before, ended = sessions(), list[SmallBatches]()
    records = few([event(1, 1, {"id": 1, "body": "b", "n": 1})])
    for _ in range(3):
        small, model = SmallBatches(spark, Kafka(bootstrap_servers="127.0.0.1:1")), model_of(SQL)
        assert small.documents(model, documents_of(model), records) is not None
        assert small.rows(model, records) is not None
        small.close()
        ended.append(small)
    gc.collect()
    assert sessions() <= before + 1  # PySpark itself keeps the newest


def sessions() -> int:
    return sum(isinstance(one, SparkSession) for one in gc.get_objects())
