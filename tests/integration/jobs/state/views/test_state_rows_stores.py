"""Rows from the state database and rows through Spark leave the same in each store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from cdc.config import Delta, View
from jobs.sinks.contract import Batch
from jobs.sinks.rows import RowSink
from jobs.sinks.stores import open_generations, open_sink
from jobs.spark.column_types import columns_of
from jobs.state.views.store_rows import RowForm, form_of_store
from jobs.state.views.text_columns import text_columns
from jobs.state.views.view_columns import spark_columns
from tests.support.events.both_ways import Both, both_ways
from tests.support.servers.stores import Store
from tests.support.views.held_rows import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = """
create type mood as enum ('sad', 'ok ok', 'h"x');
create type pair as (a int, b text);
create domain price as numeric(10,2);
"""
VALUES: dict[str, list[str]] = {
    "bool": ["t", "f"],
    "int2": ["-32768", "7"],
    "int8": ["9223372036854775807", "-1"],
    "oid": ["4294967295", "0"],
    "float4": ["0.1", "NaN", "-0", "3"],
    "float8": ["0.1", "-Infinity", "-0", "1e300"],
    "numeric": ["1.50", "NaN", "-Infinity", "123456789012345678901234567890.123"],
    "numeric(12,3)": ["1.500", "-0.001"],
    "numeric(38,10)": ["12345678901234567890123456.0123456789"],
    "price": ["22.20"],
    "text": ["", 'q"\\/\u2028\x01\x7f\n\r\t', "\U0001f600 \u00df", r"\N"],
    "varchar(20)": ["plain"],
    "char(5)": ["ab"],
    "uuid": ["b4f2f1a0-0000-0000-0000-000000000001"],
    "json": ['{"a":1.0,  "a" : 2}', " [1,2] ", "null"],
    "jsonb": ['{"a": 1.0, "b": "\\u00e9"}', "null"],
    "mood": ["ok ok", 'h"x'],
    "pair": ["(1,)", "(,)"],
    "inet": ["10.0.0.1", "10.0.0.0/8"],
    "int4range": ["[1,5)"],
    "bytea": ["\\x00ff", "\\x"],
    "bit(1)": ["1", "0"],
    "bit(13)": ["1000000000001"],
    "varbit": ["10101"],
    "date": ["2024-02-29", "0044-03-15 BC", "12345-06-07", "0001-01-01"],
    "time": ["12:34:56.100", "24:00:00"],
    "timetz": ["12:34:56+05:30"],
    "timestamp": ["2024-02-29 12:00:00.12", "0001-12-31 23:59:59.5 BC", "32767-12-31 23:59:59"],
    "timestamptz": ["2024-02-29 12:00:00.12+02", "0044-03-15 BC", "12345-01-01 00:00:00.000001"],
    "interval": ["1 year 2 days -1.5 sec", "infinity"],
    "int4[]": ["{1,NULL,-2}", "{}"],
    "text[]": ['{"a,b",NULL,"\\"","{}","\\\\"}'],
    "float8[]": ["{NaN,1.5,NULL,-0}"],
    "numeric(10,2)[]": ["{1.50,NULL}"],
    "numeric[]": ["{1.50,NaN,Infinity}"],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "timestamptz[]": ['{"2024-02-29 12:00:00.000001+00",NULL}'],
    "date[]": ['{1500-02-28,NULL,"0044-03-15 BC"}'],
    "interval[]": ['{"1 day",NULL}'],
    "jsonb[]": ['{"{\\"a\\": 1}",NULL}'],
    "bool[]": ["{t,NULL,f}"],
    "mood[]": ['{sad,"h\\"x"}'],
    "uuid[]": ["{b4f2f1a0-0000-0000-0000-000000000001}"],
}
SELECT = "select * from public.t"


@pytest.fixture
def both(database: str) -> Iterator[Both]:
    with both_ways(database, TYPES) as both:
        longest = max(map(len, VALUES.values()))
        rows = [[v[i] if i < len(v) else None for v in VALUES.values()] for i in range(longest)]
        both.table(list(VALUES), rows)
        yield both


class Twice:
    """A view written through Spark, another one of the same rows from the database."""

    def __init__(
        self,
        both: Both,
        store: Store,
        spark: SparkSession,
        name: str,
        select: str = SELECT,
        key: tuple[str, ...] = ("id",),
        declared: View | None = None,
    ) -> None:
        self.both, self.store, self.spark, self.select = both, store, spark, select
        self.by_spark, self.by_rows = f"{name}_s", f"{name}_r"
        self.view = both.view(select, key)
        columns = both.columns(select)
        self.form: RowForm = form_of_store(store, columns, key, declared)
        self.columns, self.key = spark_columns(columns), key
        self.sinks: list[Any] = [
            open_sink(store, view, spark, 60.0, None, declared)
            for view in (self.by_spark, self.by_rows)
        ]
        self.number = 0

    def prepare(self) -> None:
        assert self.columns == columns_of(self.view)
        for sink in self.sinks:
            sink.prepare(self.columns, self.key)

    def batch(self, view: str) -> Batch:
        return Batch(view, "g", self.number, 100)

    def apply(self) -> None:
        self.number += 1
        rows = self.both.rows(self.spark, self.view)
        self.sinks[0].apply(rows, self.batch(self.by_spark))
        sink = self.sinks[1]
        assert isinstance(sink, RowSink)
        sink.write_rows(self.both.made(self.form, self.select), self.batch(self.by_rows))

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


def same(twice: Twice) -> None:
    one, other = held(twice.store, twice.by_spark), held(twice.store, twice.by_rows)
    assert one[1] == other[1]
    assert one[0] == other[0]
    assert len(one[0])


def test_a_batch_leaves_the_same(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    twice = Twice(both, store, spark, source_name)
    twice.prepare()
    twice.apply()
    same(twice)
    twice.close()


@pytest.mark.exhaustive
def test_a_load_leaves_the_same(
    both: Both, store: Store, spark: SparkSession, source_name: str
) -> None:
    twice = Twice(both, store, spark, source_name)
    rows = twice.both.rows(spark, twice.view)
    made = twice.both.made(twice.form, SELECT)
    for view, loaded in ((twice.by_spark, rows), (twice.by_rows, [made])):
        stored = open_generations(store, view, spark)
        stored.load(1, loaded, twice.columns, twice.key)
        stored.switch(1)
        stored.close()
    same(twice)
    twice.close()


def test_columns_hold_what_a_cursor_gives(both: Both) -> None:
    long = "(select string_agg(md5(i::text), e',\n') from generate_series(1, 200000) i)"
    texts = ["null", long, "''", "'\"\"'", "e'\r'", "e'a\nb'", "'a,b'", r"'\.'", "'NULL'", "' '"]
    select = " union all ".join(f"select {n}::text, {text}" for n, text in enumerate(texts))
    with both.conn.transaction():
        tables = list(text_columns(both.conn, f"{select} order by 1", 2))
    assert len(tables) > 1, "they are read in blocks"
    columns = [[v for table in tables for v in table.column(i).to_pylist()] for i in range(2)]
    assert list(zip(*columns, strict=True)) == both.query(f"{select} order by 1")


def test_rows_that_no_column_holds_are_left_out_of_columns(both: Both) -> None:
    select = "select 1 as id, date 'infinity' as at union all select 2, date '2024-02-29'"
    form = form_of_store(Delta(kind="delta", path="."), both.columns(select), ("id",), None)
    rows = both.made(form, select)
    assert [(one.id, "'at'" in one.cause) for one in rows.unfit] == [("1", True)]
    assert rows.written.column("id").to_pylist() == [2]


def test_a_byte_order_mark_is_part_of_its_text(database: str) -> None:
    """Also at the start of what is read at once, and alone."""
    select = "select E'\\uFEFFa', E'\\uFEFF' union all select null, ''"
    with psycopg.connect(database) as conn:
        (found,) = text_columns(conn, select, 2)
    assert [column.to_pylist() for column in found.columns] == [["\ufeffa", None], ["\ufeff", ""]]
