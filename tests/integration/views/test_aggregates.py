"""Maintained views as Spark runs them and as PostgreSQL does, on the same rows.

Rows are PostgreSQL's own, held as mirrors hold them; results are compared as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from views.parse.definition import parse_view
from views.spark.expressions.average import divided
from views.spark.plan import key_queries, recomputation, whole
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import PgType, from_typmod

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Connection = psycopg.Connection[tuple[Any, ...]]

# name, PostgreSQL type, base, typmod
_COLUMNS = [
    ("s", "int2", "int2", -1),
    ("i", "int4", "int4", -1),
    ("b", "int8", "int8", -1),
    ("f", "float8", "float8", -1),
    ("n", "numeric(10,2)", "numeric", (10 << 16 | 2) + 4),
    ("m", "numeric(20,12)", "numeric", (20 << 16 | 12) + 4),
    ("w", "numeric(38,4)", "numeric", (38 << 16 | 4) + 4),
    ("t", "text", "text", -1),
    ("c", "char(3)", "bpchar", 7),
    ("o", "bool", "bool", -1),
    ("d", "date", "date", -1),
    ("ts", "timestamp", "timestamp", -1),
    ("tz", "timestamptz", "timestamptz", -1),
    ("g", "uuid", "uuid", -1),
    ("j", "json", "json", -1),
    ("jb", "jsonb", "jsonb", -1),
]
_VALUES: dict[str, list[Any]] = {
    "s": [1, -7, 32767, None],
    "i": [0, 1, -1, 17, 2147483647, None],
    "b": [0, 5, -5, 9223372036854775807, 9007199254740993, None],
    "f": [0.5, -2.5, 1e15, float("nan"), None],
    "n": ["0.05", "-12.50", "99999999.99", "1.00", None],
    "m": ["0.000000000001", "-0.125000000000", "99999999.999999999999", None],
    "w": ["1.0001", "-99999999999999999999999.9999", None],
    "t": ["Zoë", "a", "B", "", "ä", "\U0001f600", "�", None],
    "c": ["a", "abc", "b", None],
    "o": [True, False, None],
    "d": ["2024-02-29", "1969-12-31", None],
    "ts": ["2024-02-29 12:34:56.789012", "1969-12-31 23:59:59", None],
    "tz": ["2024-02-29 12:34:56.789+00", "1969-12-31 23:59:59+00", None],
    "g": ["6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01", "f0000000-0000-0000-0000-000000000000", None],
    "j": ['{"n": 1.0, "l": [1, 2.50 ]}', ' {"n":2,"n": 3e0, "t":"é"}', "[]", None],
    "jb": ['{"n": 3, "t": "x.y", "o": {"a": [1.50]}}', '{"n": 17, "t": ""}', "null", None],
}
_AGGREGATES = [
    "count(*)", "count(i)", "count(f)", "count(distinct t)", "count(distinct n)",
    "count(distinct c)", "count(distinct o) filter (where i > 0)", "count(*) filter (where o)",
    "sum(s)", "sum(i)", "sum(b)", "sum(n)", "sum(m)", "sum(w)", "sum(distinct i)",
    "sum(i) filter (where t <> 'a')", "sum(i + 0::int8)", "sum(case when o then n else 0 end)",
    "avg(s)", "avg(i)", "avg(b)", "avg(n)", "avg(m)", "avg(distinct i)", "avg(-n)",
    "avg(i) filter (where not o)", "round(avg(n), 2)", "round(avg(b))",
    "avg(i)::numeric(20,3)", "avg(n)::float8",
    "min(s)", "max(i)", "min(b)", "max(n)", "min(m)", "min(f)", "max(f)", "min(d)", "max(ts)",
    "min(tz)", 'min(t collate "C")', 'max(t collate "C")',
    "bool_and(o)", "bool_or(o)", "every(i > 0)", "bool_or(i > 5) filter (where o)",
    "sum(i) + count(*)", "coalesce(sum(i), 0)", "case when count(*) > 3 then 'many' else k2 end",
    "array_agg(i order by n desc, i)", "array_agg(t order by d, t collate \"C\" desc)",
    "array_agg(n) filter (where o)", "array_agg(d order by d desc nulls last)",
    "json_agg(json_build_object('i', i, 'n', n, 't', t, 'd', d, 'o', o, 'b', b))",
    "jsonb_agg(jsonb_build_object('x', json_build_object('ts', ts, 'w', w), 'g', g) order by g)",
    "json_agg(json_build_object('t', t, 'q''', i) order by t collate \"C\") filter (where i > 9)",
    "coalesce(json_agg(json_build_object('i', i)) filter (where i > 99999999999), '[]')",
    "coalesce(array_agg(i) filter (where i > 99999999999), '{}')",
    "collect_list(struct(i, t as u, n))", "collect_list(t)",
    "string_agg(t, ', ' order by i desc)", "string_agg(t, '') filter (where o)",
    "json_build_object('k', k, 'n', count(*))",
    "count(jb -> 'o')", "count(distinct j ->> 'n')", "sum((jb ->> 'n')::int)",
    "sum((j ->> 'n')::numeric(9,2)) filter (where jb ->> 't' <> '')",
    "max((jb ->> 't') collate \"C\")", "bool_or(jb @> '{\"n\": 3.0}')",
    "string_agg(j #>> '{l,1}', ',' order by (jb ->> 'n')::int)",
    "json_agg(json_build_object('o', jb -> 'o', 'l', j -> 'l', 't', jb ->> 't'))",
    "collect_list(struct(jb ->> 'n' as n, jb #> '{o,a}' as a))",
]  # fmt: skip
_ROWS, _GROUPS = 160, 12


@pytest.fixture(scope="module")
def connection(postgres: str) -> Iterator[Connection]:
    with psycopg.connect(postgres) as conn:
        conn.execute("set timezone to 'UTC'")
        yield conn
        conn.rollback()


@pytest.fixture(scope="module")
def tables(connection: Connection, spark: SparkSession) -> dict[str, TableVersion]:
    """``samples`` with a key of text and a number, and ``heads`` that some rows belong to."""
    random = Random(6)
    ddl = ", ".join(f"{name} {kind}" for name, kind, _, _ in _COLUMNS)
    connection.execute(
        f"create temp table samples (id text, no int4, k int4 not null, k2 text not null, {ddl}, "
        "primary key (id, no))".encode()
    )
    connection.execute("create temp table heads (k int4 primary key, name text)")
    connection.execute("insert into heads select k, 'h' || k from generate_series(0, 15) k")
    with connection.cursor() as cursor, cursor.copy("copy samples from stdin") as copy:
        for i in range(_ROWS):
            k = i % _GROUPS if i < _ROWS - 1 else _GROUPS  # the last one is alone
            values = [random.choice(_VALUES[name]) for name, *_ in _COLUMNS]
            copy.write_row([random.choice("abÄz") + str(i // 2), i, k, f"k{k}", *values])
    columns = [("id", "text", -1), ("no", "int4", -1), ("k", "int4", -1), ("k2", "text", -1)]
    columns += [(name, base, typmod) for name, _, base, typmod in _COLUMNS]
    found = [
        _version("samples", columns, ("id", "no")),
        _version("heads", [("k", "int4", -1), ("name", "text", -1)], ("k",)),
    ]
    for table in found:
        _mirror(spark, connection, table)
    return {table.name: table for table in found}


def _version(name: str, columns: list[tuple[str, str, int]], key: tuple[str, ...]) -> TableVersion:
    made = tuple(
        TableColumn(column, from_typmod(base, typmod, None), column not in (*key, "k", "k2"))
        for column, base, typmod in columns
    )
    return TableVersion(name[0] * 16, "pg_temp", name, made, key)


def _mirror(spark: SparkSession, connection: Connection, table: TableVersion) -> None:
    """A Spark view of the table's rows, read as text and held as a mirror holds them."""
    texts = ", ".join(f"{column.name}::text" for column in table.columns)
    rows = connection.execute(f"select {texts} from {table.table}".encode()).fetchall()
    held = spark.createDataFrame(rows, ", ".join(f"{c.name} string" for c in table.columns))
    casts = [f"cast({c.name} as {c.type.spark}) as {c.name}" for c in table.columns]
    # char(n) is cast to text without its blanks, events carry them.
    casts = [c if not c.startswith("cast(c ") else "rpad(c, 3) as c" for c in casts]
    held.selectExpr(*casts).createOrReplaceTempView(table.table)


def _view(tables: dict[str, TableVersion], sql: str, *key: str) -> MaintainedView:
    definition = parse_view("v", "s", key or ("k",), sql)
    return resolve_maintained(definition, tables)


def _in_postgres(connection: Connection, view: MaintainedView) -> list[list[Any]]:
    sql = view.reading(lambda schema, table: f"select * from {schema}.{table}")
    rows = connection.execute(sql.encode()).fetchall()
    kinds = [output.type for output in view.outputs]
    return _sorted([[_text(v, k) for v, k in zip(row, kinds, strict=True)] for row in rows])


def _in_spark(spark: SparkSession, view: MaintainedView, sql: str) -> list[list[Any]]:
    frame = spark.sql(sql)
    types = [field.dataType.simpleString().replace("`", "") for field in frame.schema]
    assert types == [_simple(output.type) for output in view.outputs]
    rows = frame.toArrow().to_pylist()
    kinds = [(output.name, output.type) for output in view.outputs]
    return _sorted([[_text(row[name], kind) for name, kind in kinds] for row in rows])


def _simple(kind: PgType) -> str:
    return kind.spark.replace("`", "").replace(": ", ":").replace(", ", ",")


def _sorted(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=repr)


def _text(value: Any, kind: PgType) -> Any:
    """Values as PostgreSQL writes them, objects and arrays by their parts."""
    if value is None:
        return None
    if kind.name == "array":
        return [_text(item, kind.item) for item in value]
    if kind.name == "struct":
        return {name: _text(value[name], part) for name, part in kind.fields}
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return _decimal(format(value, "f"), kind)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if kind.name in ("timestamp", "timestamptz"):
        return datetime.fromisoformat(value).replace(tzinfo=None).isoformat(sep=" ")
    return _decimal(str(value), kind)


def _decimal(text: str, kind: PgType) -> str:
    """A decimal without zeros at its end; what is held as text is the same text."""
    return text.rstrip("0").rstrip(".") if kind.exact and "." in text else text


def test_aggregates_are_postgresqls(
    connection: Connection, spark: SparkSession, tables: dict[str, TableVersion]
) -> None:
    differ = []
    for start in range(0, len(_AGGREGATES), 16):
        part = _AGGREGATES[start : start + 16]
        items = ", ".join(f"{text} as a{i}" for i, text in enumerate(part))
        sql = f"select k, k2, {items} from pg_temp.samples group by k, k2"
        view = _view(tables, sql, "k", "k2")
        expected = _in_postgres(connection, view)
        held = _in_spark(spark, view, whole(view, {"samples": "samples"}))
        for i, text in enumerate(part):
            one, two = ([row[i + 2] for row in rows] for rows in (expected, held))
            pairs = [pair for pair in zip(one, two, strict=True) if pair[0] != pair[1]]
            differ += [(text, pairs[:2])] if pairs else []
    assert not differ


_AVERAGES = 3000


def test_an_average_has_the_digits_that_postgresql_gives_it(
    connection: Connection, spark: SparkSession
) -> None:
    random = Random(11)
    pairs = [
        (
            random.choice((-1, 1)) * random.choice((0, random.getrandbits(random.randint(1, 63)))),
            random.choice((random.randint(1, 20), 10 ** random.randint(0, 8),
                           random.getrandbits(random.randint(1, 30)) + 1)),
        )
        for _ in range(_AVERAGES)
    ]  # fmt: skip
    spark.createDataFrame(pairs, "s bigint, n bigint").createOrReplaceTempView("pairs")
    for scale in (0, 2, 6, 12, 18):
        unit = f"CAST('1e-{scale}' AS decimal({scale + 1},{scale}))"
        total = f"CAST(CAST(s AS decimal(19,0)) * {unit} AS decimal({19 + scale},{scale}))"
        held = [
            r[0] for r in spark.sql(f"select {divided(total, 'n', scale)} from pairs").collect()
        ]
        sql = (
            f"select (p.s::numeric * '1e-{scale}'::numeric) / p.n "
            "from unnest(%s::int8[], %s::int8[]) as p(s, n)"
        )
        answer = connection.execute(
            sql.encode(), [[s for s, _ in pairs], [n for _, n in pairs]]
        ).fetchall()
        expected = [format(row[0], "f") for row in answer]
        differ = [x for x in zip(pairs, held, expected, strict=True) if x[1] != x[2]]
        assert not differ, (scale, differ[:5])


_JOINS = [
    ("k no", "select h.k, r.no, h.name, r.t from pg_temp.heads h "
             "join pg_temp.samples r on r.k = h.k"),
    ("k", "select h.k, h.name, count(r.no) as n, json_agg(json_build_object('t', r.t) "
          "order by r.i) as l from pg_temp.heads h left join pg_temp.samples r "
          "on r.k = h.k and r.i > 3 group by h.k"),
    ("k no", "select p.k, p.no, q.name, json_build_object('a', q.name, 'b', p.n) as o "
             "from pg_temp.samples p left join pg_temp.heads q on q.k = p.i where p.no > 7 and "
             "p.id is not null"),
    ("name", "select coalesce(q.name, 'none') as name, count(*) as n, sum(p.n) as s from "
             "pg_temp.samples p left join pg_temp.heads q on q.k = p.i group by 1 "
             "having count(*) > 1"),
    ("t", "select coalesce(p.jb ->> 't', '-') as t, count(q.k) as n from pg_temp.samples p "
          "left join pg_temp.heads q on q.k = (p.jb ->> 'n')::int and p.j ->> 't' = 'é' "
          "where p.jb -> 't' is not null and p.j is not null group by 1"),
    ("a b", "select a.no as a, b.no as b from pg_temp.samples a join pg_temp.samples b "
            "on a.i = b.s and a.c = b.c where a.id = 'x' or b.o"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "sql"), _JOINS)
def test_joins_are_postgresqls_whole_and_for_some_keys(
    connection: Connection,
    spark: SparkSession,
    tables: dict[str, TableVersion],
    key: str,
    sql: str,
) -> None:
    rows = tables["pg_temp.samples"]
    keyed = TableVersion(rows.schema_id, rows.schema, rows.table, rows.columns, ("no",))
    view = _view({**tables, rows.name: keyed}, sql, *key.split())
    relations = {alias: table.table for alias, table in view.tables.items()}
    expected = _in_postgres(connection, view)
    assert expected
    assert _in_spark(spark, view, whole(view, relations)) == expected
    for query in key_queries(view):  # all rows of one table are all keys of the view
        name = view.tables[query.occurrence].table
        found = spark.sql(query.sql(relations, name))
        found.createOrReplaceTempView("keys")
        made = _in_spark(spark, view, recomputation(view, relations, "keys"))
        assert found.columns == list(view.key)
        assert all(row in expected for row in made)
        inner = not any(j.left for j in view.body.joins if j.alias == query.occurrence)
        assert made == expected or not inner
