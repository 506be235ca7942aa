"""Keys, names, deletes and positions of rows that the state database makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from cdc.config import Redis, View
from cdc.lsn import Position
from jobs.sinks.contract import Batch
from jobs.sinks.documents import Documents, document_list
from jobs.sinks.redis.layout import Shape, name_of
from jobs.sinks.row_errors import RowsUnfitError
from jobs.sinks.rows import RowSink
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.state.values.document_sql import DocumentSql
from jobs.state.views.store_rows import DocumentForm, form_of_store
from jobs.state.views.view_columns import spark_columns
from tests.support.events.both_ways import LSN, ORDINAL, Both, both_ways
from tests.support.servers.stores import Store
from tests.support.views.held_rows import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = [
    "", " ", "a:b", "{}%", "q\"u'o`te\\", "line\nbreak\ttab\r", "\u00fcml \u4e2d \U0001f600", "[1]",
    "\x01\x0b\x0c\x0e\x1a\x1f\x7f", "\\u000b", "null", "k" * 600, "_id",
]  # fmt: skip
KEYS: dict[str, list[str | None]] = {
    "text": [*ODD],
    "int8": ["-9223372036854775808", "7"],
    "numeric(20,4)": ["1.5", "-12345678901234.5678"],
    "numeric": ["1.50", "NaN"],
    "date": ["1500-02-28", "12345-01-01"],
    "timestamptz": ["2024-02-29 12:00:00.000001+00", "0044-03-15 BC"],
    "timestamp": ["2024-02-29 12:00:00.1"],
    "bool": ["t", "f"],
    "bytea": ["\\x", "\\x00ff"],
    "uuid": ["b4f2f1a0-0000-0000-0000-000000000001"],
    "interval": ["1 day -00:00:01.5"],
    "time": ["12:34:56.100"],
    "int4[]": ["{1,NULL}"],
    "char(3)": ["a"],
    "float8": ["0.5", "-0", "NaN"],
}
_KINDS = ("text", "numeric", "timestamptz", "bytea", "int4[]", "float8")


def _some(all_of: Iterable[Any], some: Collection[Any]) -> list[Any]:
    """The others are no part of the suite."""
    marks = pytest.mark.exhaustive
    return [
        one if one in some else pytest.param(*([one] if isinstance(one, str) else one), marks=marks)
        for one in all_of
    ]


SHAPES = [
    Shape(),
    Shape(format="json"),
    Shape(template="user:{v0}"),
    Shape(template="{v0}:{id}:x", format="json"),
    Shape(template="{id}/{v0}%{v1}"),
]
SELECT = "select * from public.t"


@pytest.fixture
def both(database: str) -> Iterator[Both]:
    with both_ways(database, "select 1") as both:
        yield both


@pytest.mark.parametrize("kind", _some(KEYS, _KINDS))
def test_ids_and_names_are_those_of_spark(both: Both, spark: SparkSession, kind: str) -> None:
    both.table([kind, kind], [[value, value] for value in KEYS[kind]])
    view = both.view(SELECT)
    columns = both.columns(SELECT)
    rows = both.rows(spark, view).orderBy("id").coalesce(1)
    by_spark, found = [], []
    for key in (("v0",), ("v0", "id"), ("id", "v0", "v1")):
        for shape in SHAPES:
            name = name_of(shape, columns_of(view), key)
            by_spark.append(Documents(columns_of(view), key, name)(rows))
            form = DocumentForm(DocumentSql(columns, key, shape))
            found += both.made(form, SELECT).written
    wanted = document_list(reduce(DataFrame.union, by_spark).toArrow())  # one job, in this order
    assert [(d.id, d.name) for d in found] == [(d.id, d.name) for d in wanted]


DECLARED: list[dict[str, Any]] = [
    {"format": "hash"},
    {"format": "hash", "index_by": ("v0", "v1", "v2")},
    {"format": "document", "index_by": ("v0", "v1", "v2")},
    {"format": "json", "key_template": "row:{id}"},
]


@pytest.mark.parametrize("more", DECLARED, ids=str)
def test_shapes_of_redis_are_the_same(
    both: Both, spark: SparkSession, redis_server: str, source_name: str, more: dict[str, Any]
) -> None:
    store = Redis(kind="redis", url=redis_server)
    rows: list[list[str | None]]
    rows = [["a", "1.5", "t", "2024-02-29"], [None, "NaN", "f", None], ["ü", None, None, None]]
    both.table(["text", "float8", "bool", "date"], rows)
    declared = View(store="cache", key=("id",), sql="select 1", **more)
    one, other = write_both(both, store, spark, source_name, declared)
    assert held(store, one) == held(store, other)


def write_both(
    both: Both, store: Store, spark: SparkSession, name: str, declared: View | None
) -> tuple[str, str]:
    view, columns = both.view(SELECT), both.columns(SELECT)
    by_frame, by_rows = (open_sink(store, f"{name}_{i}", spark, 60.0, None, declared) for i in "sr")
    for sink in (by_frame, by_rows):
        sink.prepare(spark_columns(columns), ("id",))
    by_frame.apply(both.rows(spark, view), Batch(f"{name}_s", "g", 1, 100))
    assert isinstance(by_rows, RowSink)
    form = form_of_store(store, columns, ("id",), declared)
    by_rows.write_rows(both.made(form, SELECT), Batch(f"{name}_r", "g", 1, 100))
    by_frame.close()
    by_rows.close()
    return f"{name}_s", f"{name}_r"


class Written:
    """A view of ``t`` in a store, written at positions of one's choice."""

    def __init__(self, both: Both, store: Store, spark: SparkSession, view: str) -> None:
        self.both, self.view = both, view
        columns = both.columns(SELECT)
        self.form = form_of_store(store, columns, ("id",), None)
        sink = open_sink(store, view, spark, 60.0)
        sink.prepare(spark_columns(columns), ("id",))
        assert isinstance(sink, RowSink)
        self.sink, self.number = sink, 0

    def write(self, ordinal: int, where: str = "true", keys: str = "true") -> None:
        """Keys of ``t``; those whose row meets no condition are gone."""
        self.number += 1
        expressions = ", ".join(self.form.expressions("m", "k"))
        found = self.both.query(
            f"select {expressions} from (select * from public.t where {keys}) k"
            f" left join (select * from public.t where {where}) m on m.id = k.id"
        )
        rows = self.form.rows(found, Position(LSN, ordinal))
        self.sink.write_rows(rows, Batch(self.view, "g", self.number, len(rows)))

    def held(self) -> dict[Any, tuple[Any, int]]:
        rows = {row.key[0]: row for row in self.sink.scan()}
        return {key: (row.values["v0"], row.position.ordinal) for key, row in rows.items()}


def test_rows_that_are_gone_are_deleted_and_stay_so(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    both.table(["text"], [["one"], ["two"], ["three"]])
    written = Written(both, store, spark, source_name)
    written.write(1)
    written.write(2, "id <> 2")
    assert written.held() == {1: ("one", 2), 3: ("three", 2)}
    if store.kind != "delta":  # whose deleted rows are gone, with their positions
        written.write(1)
        assert written.held() == {1: ("one", 2), 3: ("three", 2)}
    written.write(3)
    assert written.held() == {1: ("one", 3), 2: ("two", 3), 3: ("three", 3)}
    written.sink.close()


def test_rows_of_one_batch_come_in_parts(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    both.table(["text"], [["one"], ["two"], ["three"]])
    written = Written(both, store, spark, source_name)
    for key in (1, 2, 3):
        written.number = 0
        written.write(5, keys=f"id = {key}")
    assert sorted(written.held()) == [1, 2, 3]
    written.sink.close()


def test_ordinals_of_mirrors_exceed_32_bits(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    both.table(["text"], [["a"]])
    written = Written(both, store, spark, source_name)
    for ordinal, text, shown in [
        (7, "narrow", ("narrow", 7)),
        (1 << 32, "wide", ("wide", 1 << 32)),
        ((1 << 32) - 1, "older", ("wide", 1 << 32)),
        (9 << 32, "wider", ("wider", 9 << 32)),
        ((8 << 32) + 5, "older", ("wider", 9 << 32)),
        (9 << 32, "same", ("wider", 9 << 32)),
        ((1 << 53) - 1, "last", ("last", (1 << 53) - 1)),
    ]:
        both.query(f"update public.t set v0 = '{text}' returning 1")
        written.write(ordinal)
        assert written.held() == {1: shown}
    written.sink.close()


@pytest.mark.parametrize("shape", ["hash", "json"])
def test_positions_of_every_shape_of_redis(
    both: Both, spark: SparkSession, redis_server: str, source_name: str, shape: Any
) -> None:
    both.table(["text"], [["a"], ["b"]])
    store = Redis(kind="redis", url=redis_server)
    written = Written(both, store, spark, source_name)
    declared = View(store="cache", key=("id",), sql="select 1", format=shape)
    sink = open_sink(store, f"{source_name}_{shape}", spark, 60.0, None, declared)
    sink.prepare(spark_columns(both.columns(SELECT)), ("id",))
    assert isinstance(sink, RowSink)
    written.sink = sink
    written.form = form_of_store(store, both.columns(SELECT), ("id",), declared)
    written.write(7)
    written.write(5 << 32, "id = 1")
    written.write(4 << 32)
    written.write(6)
    assert written.held() == {1: ("a", 5 << 32)}
    written.write(6 << 32)
    assert written.held() == {1: ("a", 6 << 32), 2: ("b", 6 << 32)}
    sink.close()


UNFIT = [
    ("date", "infinity"),
    ("timestamp", "-infinity"),
    ("timestamptz", "infinity"),
    ("timestamptz", "32768-01-01"),
    ("date", "5874897-12-31"),
    ("numeric(10,2)", "NaN"),
    ("int4[]", "{{1,2}}"),
    ("text[]", "[0:1]={a,b}"),
    ("date[]", "{2024-01-01,infinity}"),
    ("numeric(4,1)[]", "{NaN}"),
]


@pytest.mark.parametrize(("kind", "value"), _some(UNFIT, UNFIT[3:9:2]))
def test_what_no_view_holds_is_refused_on_both_ways(
    both: Both, spark: SparkSession, kind: str, value: str
) -> None:
    both.table([kind], [[value], [None]])
    made = both.made(both.form(SELECT), SELECT)
    assert [(one.id, one.position) for one in made.unfit] == [("1", Position(LSN, ORDINAL))]
    assert "'v0'" in made.unfit[0].cause
    assert [one.id for one in made.written] == ["2"]
    with pytest.raises(Exception, match="a value that"):
        both.rows(spark, both.view(SELECT)).collect()


def test_unfit_rows_are_told_when_the_others_are_written(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    both.table(["date"], [["infinity"], ["2024-02-29"]])
    written = Written(both, store, spark, source_name)
    with pytest.raises(RowsUnfitError, match="'v0': a value that date cannot hold") as caught:
        written.write(3)
    assert [one.id for one in caught.value.rows] == ["1"]
    assert list(written.held()) == [2]
    written.sink.close()
