"""Plans that are kept for small batches: each run is of its own records, as if planned for them."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from cdc.errors import LogError
from cdc.kafka.broker import Record as KafkaRecord
from jobs.applying import Model
from jobs.faults import translate
from jobs.schema import PLACEHOLDER
from jobs.session import session_beside
from jobs.small import prepared as prepared_module
from jobs.small.prepared import FewRecord, Prepared, read_few
from tests.events import Record, delete, event, kafka_frame, snapshot, truncate
from tests.unit.test_applying import TABLE
from views.definition import parse_view
from views.resolve import resolve
from views.tables import TableColumn, TableVersion
from views.types import INT4, TEXT

ODD = ["", "b", None, PLACEHOLDER, "\x00", '"\\', "\U0001f600ä", "\u2028", "[1]", "x" * 5_000]


def model_of(sql: str, every: bool = False) -> Model:
    view = resolve(parse_view("v", "s", ["id"], sql), TABLE)
    return Model(view, {TABLE.schema_id: TABLE}, every)


def few(records: list[Record]) -> list[FewRecord]:
    """As ``kafka_frame`` has them, as ``read_few`` gives them."""
    return [
        FewRecord(None if key is None else key.decode(), value.decode(), "events", 0, offset)
        for offset, (key, value) in enumerate(records)
        if value is not None
    ]


def drawn(random: Random) -> list[Record]:
    lsn, ordinal = random.randrange(1, 1000), random.randrange(1, 4)
    row = {"id": random.randrange(12), "body": random.choice(ODD), "n": random.randrange(4)}
    kind = random.choice("cudrt")
    if kind == "t":
        return [truncate(lsn, ordinal)]
    if kind == "d":
        return list(delete(lsn, ordinal, row))
    if kind != "u" and row["body"] == PLACEHOLDER:
        row["body"] = "whole"
    return [snapshot(lsn, row) if kind == "r" else event(lsn, ordinal, row, kind)]


def in_order(rows: pa.Table) -> list[Any]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("every", [False, True])
def test_batch_after_batch_the_rows_are_those_of_a_plan_made_for_each(
    spark: SparkSession, every: bool, adaptive: bool
) -> None:
    session = session_beside(spark)
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    model = model_of("select id, body, n + 1 as n from t where n > 0", every)
    prepared = Prepared(session, model)
    batches: list[list[Record]] = [
        [],
        [truncate(7, 1)],
        [event(1, 1, {"id": 1, "body": "whole", "n": 1}),
         event(2, 1, {"id": 1, "body": PLACEHOLDER, "n": 1}, "u")],
        *([one for _ in range(25) for one in drawn(random)] for _ in range(5)),
        [],
    ]  # fmt: skip
    gaps = 0
    for records in batches:
        frame = kafka_frame(spark, records)
        plain = model.rows(frame).toArrow()
        gap = any(one["gap"] for one in plain.column("__event").to_pylist())
        gaps += gap
        wanted = model.filled_rows(frame).toArrow() if gap else plain
        found = prepared.rows(few(records))
        assert found is not None
        assert in_order(found) == in_order(wanted)
        assert found.schema == wanted.schema
    assert (gaps > 0) != every


def test_plans_are_made_once_however_many_batches_come(spark: SparkSession) -> None:
    made, model = list[int](), model_of("select id, body from t")
    step = model.rows

    def counted(records: Any) -> Any:
        made.append(1)
        return step(records)

    model.rows = counted
    prepared = Prepared(session_beside(spark), model)
    for n in range(3):
        rows = prepared.rows(few([event(n, 1, {"id": n, "body": "b", "n": 1})]))
        assert rows is not None
        assert rows.column("id").to_pylist() == [n]
    assert len(made) == 1


def test_after_a_batch_that_fails_the_next_one_is_right(spark: SparkSession) -> None:
    prepared = Prepared(session_beside(spark), model_of("select id, n from t"))
    unfit = event(1, 1, {"id": 1, "body": "", "n": "many"})
    with pytest.raises(Exception, match="a value that int cannot hold") as raised:
        prepared.rows(few([unfit]))
    assert "events-0-0" in translate(raised.value, "v").message
    rows = prepared.rows(few([event(2, 1, {"id": 2, "body": "", "n": 3})]))
    assert rows is not None
    assert rows.select(["id", "n"]).to_pylist() == [{"id": 2, "n": 3}]


def test_a_plan_that_would_keep_what_it_read_is_not_run_again(spark: SparkSession) -> None:
    model = model_of("select id from t")
    step = model.rows
    model.rows = lambda records: step(records.repartition(2))
    records = few([event(1, 1, {"id": 1, "body": "", "n": 1})])
    with capture_logs() as lines:
        assert Prepared(session_beside(spark), model).rows(records) is None
    (line,) = lines
    assert line["event"] == "small_batches_planned_each"
    assert set(line["steps"]) == {"ShuffleExchangeExec"}


def test_what_is_called_as_a_step_of_a_plan_is_none(spark: SparkSession) -> None:
    columns = (TableColumn("id", INT4), TableColumn("InMemory", TEXT))
    table = TableVersion("0" * 16, "public", "t", columns, ("id",))
    sql = """select id, 'ShuffleExchange' as "Exchange", "InMemory" from t"""
    view = resolve(parse_view("Subquery", "s", ["id"], sql), table)
    model = Model(view, {table.schema_id: table})
    rows = Prepared(session_beside(spark), model).rows(
        few([event(1, 1, {"id": 1, "InMemory": "m"})])
    )
    assert rows is not None
    assert rows.column("InMemory").to_pylist() == ["m"]


class Topic:
    """Kafka, with one partition of one topic."""

    def __init__(self, *values: bytes | None, key: bytes | None = b"k") -> None:
        self._records = [KafkaRecord(0, i, 0, key, value) for i, value in enumerate(values)]

    def read(self, topic: str, partition: int, start: int, end: int) -> list[KafkaRecord]:
        assert (topic, partition) == ("t", 0)
        if start < 0:
            raise LogError("retention removed it")
        return [one for one in self._records if start <= one.offset < end]


def read(topic: Any, begin: int = 0) -> list[FewRecord] | None:
    return read_few(lambda _name: topic, {"t": {0: begin}}, {"t": {0: 9}})


def test_what_is_few_is_read_by_its_offsets_and_the_rest_is_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic: Any = Topic(b"a", None, b"\xc3\xa4")
    assert read(topic, 1) == [FewRecord("k", "ä", "t", 0, 2)]
    assert read(Topic(b"a", key=None)) == [FewRecord(None, "a", "t", 0, 0)]
    assert read(Topic(b"a", b"\xff")) is None  # no text
    assert read(Topic(b"a", key=b"\xff")) is None
    assert read(topic, -1) is None  # gone
    assert read_few(lambda _name: topic, {}, {"t": {0: 1}}) is None  # nobody knows where it begins
    monkeypatch.setattr(prepared_module, "MOST_BYTES", 4)
    assert read(Topic(b"abc")) is not None
    assert read(Topic(b"ab", b"ab")) is None
