"""Columns that GROUP BY settles without naming them, as PostgreSQL reads them for `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from views.parse.definition import parse_view
from views.spark.plan import whole
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, TEXT, PgType, array_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Connection = psycopg.Connection[tuple[Any, ...]]

_VALUES = {
    "point": "(1,2)", "json": '{"a": 1}', "json[]": '{"{\\"a\\":1}","[]"}', "xml": None,
    "point[]": '{"(1,2)","(3,4)"}', "box[]": "{(3,4),(1,2);(7,8),(5,6)}", "bit(3)[]": "{101}",
    "int4range[]": '{"[1,5)"}', "tsquery[]": "{'a'}", "jsonb[]": "{}", "varchar(3)[]": "{abc}",
    "bytea[]": None, "line": "{1,2,3}", "polygon[]": '{"((0,0),(1,1))"}', "xml[]": "{}",
}  # fmt: skip


@pytest.fixture
def connection(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres) as conn:
        yield conn
        conn.rollback()


def _view(columns: dict[str, PgType], shown: str) -> MaintainedView:
    """Of groups of ``item`` by the ``head`` they belong to, which has the columns."""
    held = tuple(TableColumn(name, kind) for name, kind in columns.items())
    heads = (TableColumn("k", INT4, nullable=False), *held)
    items = (TableColumn("id", INT4, nullable=False), TableColumn("k", INT4))
    tables = [
        TableVersion("h" * 16, "pg_temp", "head", heads, ("k",)),
        TableVersion("i" * 16, "pg_temp", "item", items, ("id",)),
    ]
    sql = (
        f"select h.k, {shown}, count(i.id) as n from pg_temp.head h "
        "left join pg_temp.item i on i.k = h.k group by h.k"
    )
    definition = parse_view("v", "s", ("k",), sql)
    return resolve_maintained(definition, {table.name: table for table in tables})


def _reading(view: MaintainedView) -> str:
    return view.reading(lambda schema, table: f"select * from {schema}.{table}")


def test_they_are_read_whatever_their_type(connection: Connection) -> None:
    """Also those of types without equality, and arrays of any."""
    columns = {f"c{i}": kind for i, kind in enumerate(_VALUES)}
    described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    values = ", ".join("%s" for _ in columns)
    connection.execute(f"create temp table head (k int4 primary key, {described})".encode())
    connection.execute(f"insert into head values (1, {values})".encode(), list(_VALUES.values()))
    connection.execute("insert into head (k) values (2)")
    connection.execute("create temp table item (id int4 primary key, k int4)")
    connection.execute("insert into item select i, i % 2 + 1 from generate_series(1, 9) i")
    kinds = {
        name: array_of(PgType(kind.removesuffix("[]"))) if "[" in kind else PgType(kind)
        for name, kind in columns.items()
    }
    read = _reading(_view(kinds, ", ".join(columns)))
    texts = ", ".join(f"{name}::text" for name in columns)
    expected = connection.execute(f"select k, {texts} from head order by k".encode()).fetchall()
    found = connection.execute(f"select k, {texts} from ({read}) v order by k".encode()).fetchall()
    assert found == expected


def test_spark_and_postgresql_agree_on_arrays_of_any_length(
    connection: Connection, spark: SparkSession
) -> None:
    lists = [None, [], [None], ["a"], ["b, c", None, "é"]]
    heads = [(k, None if k == 3 else f"h{k}", tags) for k, tags in enumerate(lists)]
    items = [(i, i % 4) for i in range(12)]
    connection.execute("create temp table head (k int4 primary key, name text, tags text[])")
    connection.execute("create temp table item (id int4 primary key, k int4)")
    with connection.cursor() as cursor:
        cursor.executemany("insert into head values (%s, %s, %s)", heads)
        cursor.executemany("insert into item values (%s, %s)", items)
    described = "k int, name string, tags array<string>"
    spark.createDataFrame(heads, described).createOrReplaceTempView("head")
    spark.createDataFrame(items, "id int, k int").createOrReplaceTempView("item")
    shown = (
        "h.tags, h.tags[1] as tag, coalesce(h.name, '-') as name, nullif(h.name, 'h1') as other, "
        "case h.name when 'h2' then h.name else 'none' end as chosen"
    )
    view = _view({"name": TEXT, "tags": array_of(TEXT)}, shown)
    expected = connection.execute(f"{_reading(view)} order by k".encode()).fetchall()
    held = spark.sql(whole(view, {"h": "head", "i": "item"})).orderBy("k").toArrow().to_pylist()
    assert [tuple(row.values()) for row in held] == expected
    assert [row["tags"] for row in held] == lists
