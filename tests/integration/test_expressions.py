"""Every construct that views let through, evaluated by a real PostgreSQL and by Spark.

The rows go the way they go in production: PostgreSQL's own text, the event's form of it, the
column's Spark type, the translated expression. Results are compared as values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.types.string import TextLoader

from jobs.faults import UnfitValueError, translate
from jobs.fold import fold, parse
from jobs.project import project
from tests.events import event, kafka_frame
from views.definition import parse_view
from views.resolve import resolve
from views.shapes import in_postgres as written
from views.tables import TableColumn, TableVersion
from views.types import from_typmod

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# name, PostgreSQL type, base, typmod, element, values
_COLUMNS: list[tuple[str, str, str, int, str | None, list[Any]]] = [
    ("s", "int2", "int2", -1, None, [7, -7, 0, None, 32767, 3]),
    ("i", "int4", "int4", -1, None, [17, -17, 1, None, 2000000000, 5]),
    ("b", "int8", "int8", -1, None, [5, -5, 2, None, 9007199254740993, 4]),
    ("r", "float4", "float4", -1, None, [1.5, -2.5, 0.1, None, 3.0, 1e10]),
    ("f", "float8", "float8", -1, None, [2.5, -2.5, 0.5, None, 1e15, 3.5]),
    ("n", "numeric(10,2)", "numeric", (10 << 16 | 2) + 4, None,
     ["12.50", "-12.50", "0.05", None, "99999999.99", "1.45"]),
    ("m", "numeric(6,3)", "numeric", (6 << 16 | 3) + 4, None,
     ["1.250", "-0.125", "2.000", None, "999.999", "3.005"]),
    ("x", "numeric", "numeric", -1, None,
     ["1.005", "-0.125", "12345678901234567890.55", None, "0", "2.5"]),
    ("t", "text", "text", -1, None,
     ["Hello, World", "  pad  ", "", None, "a-b-c", "naïve Ünïcödé"]),
    ("u", "varchar(20)", "varchar", 24, None, ["l", "abc ", "xyx", "z", None, "abcde"]),
    ("c", "char(5)", "bpchar", 9, None, ["ab   ", "abc  ", "     ", None, "x    ", "abcde"]),
    ("o", "bool", "bool", -1, None, [True, False, True, None, False, True]),
    ("d", "date", "date", -1, None,
     ["2024-02-29", "1999-12-31", "2021-01-03", None, "1970-01-01", "2020-12-31"]),
    ("ts", "timestamp", "timestamp", -1, None,
     ["2024-02-29 12:34:56.789012", "1969-12-31 23:59:59", "2021-01-03 00:00:00", None,
      "2013-01-01 05:17:00.5", "2020-12-31 23:59:59.999999"]),
    ("tz", "timestamptz", "timestamptz", -1, None,
     ["2024-02-29 12:34:56.789012+00", "1969-12-31 23:59:59+00", "2021-01-03 00:00:00+00", None,
      "2013-01-01 05:17:00.5+00", "2020-12-31 23:59:59.999999+00"]),
    ("y", "date", "date", -1, None,
     ["2024-02-29", "0044-03-15 BC", "12345-06-07", None, "0001-01-01", "0001-12-31 BC"]),
    ("w", "numeric(38,8)", "numeric", (38 << 16 | 8) + 4, None,
     ["123456789012345678901234567890.12345678", "-123456789012345678901234567890.12345678",
      "999999999999999999999999999999.99999999", None, "-0.00000001", "0.00000000"]),
    ("a", "int4[]", "array", -1, "int4", [[1, 2, 3], [], [None, 5], None, [9], [7, 8]]),
    ("p", "text[]", "array", -1, "text",
     [["a", "b"], [], [None, "x,y"], None, ["a-b-c", "{}"], ["", "abcde"]]),
    ("g", "uuid", "uuid", -1, None,
     ["6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01", "00000000-0000-0000-0000-000000000000",
      "6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f02", None, "6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f03",
      "6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f04"]),
    ("j", "json", "json", -1, None,
     [r'{"n": 1.0, "i": 5, "s":"x\u00e9\ud83d\ude00", "a.b": "dot", "": "\"q\"", "n":2.50e0,'
      r' "o": {"k" : [1, 2.50,{"d":"2024-02-29"}]}, "t": true, "w": "2024-02-29T12:34:56.5+02:00",'
      r' "g": "6F7B1A7E-3F34-4B62-9C52-0D8A2A6F0F01", "u": "{\\"}',
      ' [ 10 , "z", null, [1,[2 ]] ] ', '{"n":"-12", "i":" 7 ","t":"OF", "w":null,"o":[1, 2] }',
      None, " null ", '"a string"']),
    ("jb", "jsonb", "jsonb", -1, None,
     ['{"": "\\"q\\"", "i": 5, "n": 1.0, "o": {"k": [1, 2.50, {"d": "2024-02-29"}]}, "t": true}',
      '[10, "z", null, [1, [2]]]', '{"i": "7", "n": -9007199254740993, "t": "no",'
      ' "a.b": {"é": []}}', None, "null", "[]"]),
]  # fmt: skip
_ROWS = 6
_BEFORE_ONE = {"0044-03-15 BC": "-0043-03-15", "0001-12-31 BC": "0000-12-31"}

EXPRESSIONS = [
    # arithmetic
    "s + 1", "s - b", "i + s", "-i", "- (-i)", "i / 2", "-i / 2", "i / 2 * 2", "b / 3", "s / 2",
    "i % 5", "-i % 5", "mod(i, 5)", "b % 3", "i + b", "b * 2", "i - s - 1", "i - (s - 1)",
    "i / 2.0::float8", "f + 1", "f * f", "f / 2", "f - i", "r + r", "r * 2", "r / 2", "r + f",
    "n + m", "n - 1", "n * m", "n * 2", "n % 1.5", "n % m", "n + i", "-n", "1.50 + n", "i + 1.5",
    "2147483647 + b", "-2147483648", "-9223372036854775808", "abs(i)", "abs(n)", "abs(f)",
    "ceil(n)", "floor(n)", "ceil(m)", "floor(m)", "round(n)", "round(n, 1)", "round(m, 2)",
    "round(n, 5)", "round(f)", "round(x, 2)", "round(x)",
    "trunc(n)", "trunc(n, 1)", "trunc(m, 2)", "trunc(n, 5)", "trunc(f)", "trunc(-f)", "trunc(w)",
    "trunc(w, 3)", "trunc(-w, 7)", "trunc(0.75 + n * 0)", "(trunc(n, 1))::text",
    # comparison and logic
    "i = 17", "i <> 17", "i != 17", "i < b", "n > m", "n >= 12.5", "f <= 0.5", "r = 1.5",
    "i = '17'", "t = 'a-b-c'", "t <> ''", "o = true", "o = 't'", "not o", "o and i > 0",
    "o or i > 0", "o is true", "o is not true", "o is false", "i is null", "i is not null",
    "(i > 0) is null", "d = '2024-02-29'", "d > '2000-01-01'", "d >= date '2021-01-03'",
    "ts < '2021-01-03 00:00:01'", "tz >= '2021-01-03 00:00:00+00'",
    "tz = '2024-02-29T13:34:56.789012+01'", "ts = timestamp '1969-12-31 23:59:59'",
    "i is distinct from 17", "i is not distinct from null", "i between 1 and 20",
    "i not between 1 and 20", "i in (1, 17)", "i not in (1, 17)", "t in ('', 'a-b-c')",
    "i in (1, null)", "d between '2000-01-01' and '2022-01-01'",
    "g = '6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01'", "c = 'ab'", "c = 'ab   '", "c in ('ab', 'x')",
    "case c when 'ab ' then 1 end", "upper(c)", "c || c", "c = u", "u = c", "u <> c", "c = t",
    "c is distinct from u", "u is not distinct from c", "case c when u then 1 else 0 end",
    "case u when c then 1 else 0 end", "c in (u, 'x')", "u in ('abc', c)", "c::text = u",
    "s = b", "n = 12.5", "n = f",
    "o = (i > 0)", "(i = 17) = true", "r = 0.1", "r > 1", "r between 0.1 and 2", "f in (2.5, 1)",
    "i = any(array[1, 17])", "i = any('{1,17}')", "i = any(array[1, null])",
    "f = any(array[1, 2.5])", "i <> all(array[1, 17])", "t <> all('{a-b-c,\"\"}'::text[])",
    "r = any(array[0.1])", "n = some('{12.50,1}')", "b = any('{5}'::int8[])",
    "t = any(array['', 'a-b-c'])", "u = any('{l,\"abc \"}')", "c = any(array['ab', 'x'])",
    "d = any(array['2024-02-29', null]::date[])", "jb ->> 'i' = any(array['5', '7'])",
    "o = any(array[true])", "g = any(array['6f7b1a7e-3f34-4b62-9c52-0d8a2a6f0f01']::uuid[])",
    # conditional
    "case when i > 0 then 'pos' when i < 0 then 'neg' else 'zero' end", "case when o then i end",
    "case i when 17 then 'a' when 1 then 'b' end", "case when o then n else i end",
    "case when o then 1.5 else n end", "case when o then null else t end", "coalesce(i, 0)",
    "coalesce(t, 'none')", "coalesce(null, t, u)", "coalesce(i, b)", "nullif(i, 17)",
    "nullif(t, '')", "greatest(i, b, 3)", "least(i, s)", "greatest(d, '2020-01-01')",
    "case when o then s else f end",
    # casts
    "i::text", "b::text", "n::text", "o::text", "d::text", "ts::text", "g::text", "c::text",
    "i::int8", "b::float8", "i::float4", "(case when f < 100 then f end)::int",
    "(case when r < 100 then r end)::int", "n::int", "m::int", "n::numeric(10,1)",
    "m::numeric(5,1)", "f::int8", "i::numeric(12,2)", "i::numeric", "n::float8", "'12'::int",
    "'1.25'::numeric(10,1)", "i::varchar", "t::varchar(3)", "o::int", "i::bool", "d::timestamp",
    "ts::date", "'2024-01-01'::date", "cast(i as bigint)", "r::float8", "null::int",
    "(i % 100)::smallint",
    # text
    "t || u", "t || i", "i || t", "'x' || t", "t || null", "t || o", "t || n", "t || d",
    "c || '|'", "t || '-' || u", "lower(t)", "upper(t)", "length(t)", "char_length(u)",
    "length(c)", "substring(t from 2 for 3)", "substring(t, 3)", "substr(t, 1, 4)", "left(t, 3)",
    "right(t, 3)", "left(t, 0)", "replace(t, 'l', 'L')", "replace(t, '', 'x')", "reverse(t)",
    "repeat(u, 3)", "lpad(u, 3, '*')", "rpad(t, 4)", "lpad(t, 4, 'ab')", "trim(t)", "btrim(t)",
    "ltrim(t)", "rtrim(t)", "trim(both 'x' from u)", "ltrim(t, ' He')", "rtrim(t, 'dl')",
    "split_part(t, '-', 2)", "split_part(t, '-', 9)", "strpos(t, 'o')", "strpos(t, u)",
    "strpos(t, '')", "position('b' in t)", "translate(t, 'lo', '01')", "translate(t, 'lo', '0')",
    "starts_with(t, 'He')", "md5(t)", "concat(t, '-', u)", "concat(i, t)",
    "concat_ws('/', t, u, i)", "t like 'H%'", "t not like 'H%'", "t not ilike 'h%'",
    "not t like 'H%'", "t like '_-b%'", "t ilike '%WORLD'", "t like '100\\%'", "u like 'x_x'",
    "t ilike '%ÜNÏ%'", "'it''s \\ ' || t", "t like '%'",
    "concat(o, t)", "concat(c, t)", "concat_ws('-', o, c, t)", "concat_ws(c, t, o)",
    "concat(not o)",
    "y::text", "t || y", "concat(y)", "(y::timestamp)::text", "extract(year from y)",
    "extract(isoyear from y)", "extract(year from y::timestamp)",
    "-w", "abs(w)", "- (-w)", "abs(-w)", "w",
    # time
    "extract(year from d)", "extract(month from ts)", "extract(day from d)",
    "extract(dow from d)", "extract(isodow from d)", "extract(doy from d)",
    "extract(week from d)", "extract(isoyear from d)", "extract(quarter from d)",
    "extract(hour from ts)", "extract(minute from ts)", "extract(second from ts)",
    "extract(epoch from ts)", "extract(epoch from d)", "extract(dow from d)::int",
    "date_trunc('day', ts)", "date_trunc('week', ts)", "date_trunc('month', ts)",
    "date_trunc('quarter', ts)", "date_trunc('year', ts)", "date_trunc('hour', ts)",
    "date_trunc('minute', ts)", "date_trunc('second', ts)", "d + 1", "d - 1",
    "d - date '2000-01-01'", "d + i % 10", "tz at time zone 'UTC'", "ts at time zone 'UTC'",
    "(tz at time zone 'UTC')::date", "date_trunc('day', tz at time zone 'UTC')",
    "date_part('year', d)", "date_part('second', ts)", "date_part('epoch', ts)",
    "date_part('epoch', tz)", "date_part('dow', ts)", "date_part('epoch', d)",
    "date_part('isoyear', y)", "date_part('minute', ts) + 1", "extract(epoch from tz)",
    "extract(epoch from ts - timestamp '2000-01-01 00:00:00.25')",
    "extract(epoch from (tz - timestamptz '2000-01-01 00:00:00+00'))",
    "extract(epoch from (ts - d::timestamp)) / 60.0::float8",
    "ts + interval '1 day'", "ts - interval '1 month'", "ts + interval '90 minutes'",
    "d + interval '1 week'", "d - interval '1 year'", "tz + interval '36 hours'",
    "tz - interval '5' second", "ts + '2 years'::interval", "ts - interval '-3 mons'",
    "(y + interval '1 month')::text", "date '2024-01-31' + interval '1 month'",
    "date '2024-02-29' - interval '1 year'", "ts + interval '1 day' > '2021-01-03 12:00:00'",
    "to_char(ts, 'YYYY-MM-DD HH24:MI:SS')", "to_char(ts, 'yyyymmddhh24miss')",
    "to_char(ts, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", "to_char(ts, 'HH12:MI MS, é')",
    "to_char(tz at time zone 'UTC', 'YYYY-MM')", "to_char(d, 'Mon DD, YYYY')",
    "to_char(d, 'FMMonth FMDD')", "to_char(d, 'Month|Day|DY|dy|MON|month|DAY|Dy')",
    "to_char(d, 'IYYY-IW-ID')", "to_char(d, 'YY/Q/DDD/D')", "to_char(y, 'YYYY-MM-DD')",
    "to_char(y, 'FMYYYY/YY/IYYY-IW')", "to_char(y, 'FMDDD Dy')",
    "to_char(ts, 'FMHH24:FMMI:FMSS.FMMS FMUS FMQ FMIW FMYY FMDay')", "to_char(null::date, 'MM')",
    # arrays
    "cardinality(a)", "array_length(a, 1)", "array_upper(p, 1)", "array_length(p, 1)",
    "array_to_string(a, ',')", "array_to_string(p, '-')", "array_to_string(p, ',', '*')",
    "array_to_string(p, null)", "array_to_string(a, t)", "array_to_string(p, '', null)",
    "coalesce(a, '{}')", "cardinality(coalesce(p, '{}'))", "coalesce(p, '{}'::text[])",
    "f = any(array[f, 0.5::float8])", "i = any(array[s, b, 1])", "t = any(array[null])",
    "n = any(array[m, 12.50, i])", "t = any(array[u, t])", "c = any(array[t, 'x'::text])",
    "9 = any(a)", "i = any(a)", "b = any(a)", "s = some(a)", "5 <> all(a)", "null = any(a)",
    "i <> all(a)", "5.0 = any(a)", "n = any(a)", "f = any(a)", "t = any(p)", "'a' = any(p)",
    "u = any(p)", "not 'a' = any(p)", "c = any(p)", "'{}' = any(p)", "t <> all(p)",
    "null <> all(p)", "case when 'b' = any(p) then p[2] end",
    "a[1]", "a[2]", "a[3] is null", "a is null",
    # json
    "j -> 'n'", "j ->> 'n'", "jb -> 'n'", "jb ->> 'n'", "j -> 's'", "j ->> 's'", "j ->> 'u'",
    "j -> 'a.b'", "jb -> 'a.b' -> 'é'", "j ->> ''", "jb ->> ''", "j -> 'o'", "j ->> 'o'",
    "jb -> 'o'", "jb ->> 'o'", "j -> 'o' -> 'k' -> 1", "j -> 'o' ->> -1", "jb -> -1 -> 1 ->> 0",
    "j -> 0", "j -> -4", "j ->> 2", "j -> 2", "jb -> 9", "j #> '{o,k,2,d}'", "j #>> '{o,k,2,d}'",
    "jb #> '{o,k,-1}'", "jb #>> '{3,1,0}'", "j #>> '{}'", "jb #> '{}'", "j #> array['o','0']",
    "j -> 'x' is null", "j ->> 'n' is not null", "j is null", "jb ->> 't' = 'true'",
    "coalesce(j -> 'o' ->> 'k', '-')", "coalesce(jb -> 'o', '[]')", "nullif(j ->> 'n', '-12')",
    "(j ->> 'i')::int", "(jb ->> 'i')::bigint + 1", "(jb ->> 'n')::numeric(20,2)",
    "round((j ->> 'n')::numeric, 1)", "(j ->> 'n')::float8 * 2", "(j ->> 't')::boolean",
    "(jb ->> 't')::boolean", "(j ->> 'w')::timestamptz", "(j ->> 'w')::timestamp",
    "(j ->> 'w')::date", "(j #>> '{o,k,2,d}')::date", "(j ->> 'g')::uuid", "'x' || (j ->> 'i')",
    "upper(jb ->> 't')", "jb ->> 'i' in ('5', '7')", "jb ->> 'i' like '%7'", "jb::text", "j::text",
    "(jb -> 'o')::text", "case when jb ? 'i' then (jb ->> 'i')::int end", "jb @> '{\"t\": true}'",
    "jb @> '[10, [1]]'::jsonb", "jb ? 'z'", "jb -> 'o' ? 'k'", "jsonb_typeof(jb)",
    "json_typeof(j -> 'o')", "case when json_typeof(j) = 'array' then json_array_length(j) end",
    "case jsonb_typeof(jb) when 'array' then jsonb_array_length(jb) else 0 end",
    "case when i = 1 then (j ->> 'n')::int end", "case when i = 1 then (j ->> 's')::int end",
    "case when i = -17 then (jb ->> 'n')::numeric(3,2) end",
]  # fmt: skip


def _form(base: str, value: Any) -> Any:
    """The value as an event carries it."""
    if value is None:
        return None
    if base == "date":
        return f"{_BEFORE_ONE.get(value, '+' * (len(value) == 11) + value)}Z"
    if base in ("timestamp", "timestamptz"):
        return value.replace("+00", "").replace(" ", "T") + "Z"
    return value


@pytest.fixture(scope="module")
def table() -> TableVersion:
    columns = [TableColumn("id", from_typmod("int4", -1, None))]
    columns += [
        TableColumn(name, from_typmod(base, typmod, element))
        for name, _, base, typmod, element, _ in _COLUMNS
    ]
    return TableVersion("a" * 16, "public", "samples", tuple(columns), ("id",))


@pytest.fixture(scope="module")
def in_postgres(postgres: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set timezone to 'UTC'")
        for kind in ("json", "jsonb"):
            connection.adapters.register_loader(kind, TextLoader)
        ddl = ", ".join(f"{name} {kind}" for name, kind, *_ in _COLUMNS)
        connection.execute(f"create temp table samples (id int4 primary key, {ddl})".encode())
        names = sql.SQL(", ").join(sql.Identifier(name) for name, *_ in _COLUMNS)
        marks = sql.SQL(", ").join(sql.Placeholder() for _ in _COLUMNS)
        insert = sql.SQL("insert into samples (id, {}) values (%s, {})").format(names, marks)
        for i in range(_ROWS):
            connection.execute(insert, [i, *(values[i] for *_, values in _COLUMNS)])
        yield connection


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession, table: TableVersion) -> dict[str, list[Any]]:
    """All expressions in one view, or the error of those that fail."""
    records = [
        event(
            1,
            i + 1,
            {"id": i, **{name: _form(base, values[i]) for name, _, base, _, _, values in _COLUMNS}},
            schema_id=table.schema_id,
        )
        for i in range(_ROWS)
    ]
    columns = [column.name for column in table.columns]
    events = fold()(parse(columns, {})(kafka_frame(spark, records))).persist()
    results: dict[str, Any] = {}
    for start in range(0, len(EXPRESSIONS), 40):
        part = EXPRESSIONS[start : start + 40]
        try:
            results |= _evaluated(events, table, part)
        except Exception:  # tell which one it is
            for text in part:
                try:
                    results |= _evaluated(events, table, [text])
                except Exception as error:
                    results[text] = [str(translate(error, "v"))]
    return results


def _evaluated(events: DataFrame, table: TableVersion, texts: list[str]) -> dict[str, list[Any]]:
    columns = ", ".join(f"{text} as e{i}" for i, text in enumerate(texts))
    view = resolve(parse_view("v", "s", ["id"], f"select id, {columns} from samples"), table)
    rows = project(view, {table.schema_id: table})(events).orderBy("id").toArrow().to_pylist()
    return {text: [row[f"e{i}"] for row in rows] for i, text in enumerate(texts)}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_spark_computes_what_postgresql_computes(
    text: str,
    in_spark: dict[str, list[Any]],
    in_postgres: psycopg.Connection[tuple[Any, ...]],
) -> None:
    answer = in_postgres.execute(f"select {text} from samples order by id".encode())
    assert answer.description is not None
    single = answer.description[0].type_code == _FLOAT4
    expected = [_comparable(row[0], single) for row in answer.fetchall()]
    assert [_comparable(value) for value in in_spark[text]] == expected


# What PostgreSQL refuses too; and dates and instants in forms whose meaning depends on settings.
_REFUSED = [
    (r'{"a": "\u0000"}', "j -> 'b'"), (r'{"a": "\ud800"}', "j ->> 'a'"),
    ('{"a": "x"}', "(j ->> 'a')::int"), ('{"a": "o"}', "(j ->> 'a')::boolean"),
    ('{"a": "5"}', "(j ->> 'a')::uuid"), ('{"a": "1e"}', "(j ->> 'a')::numeric"),
    ('{"a": "2024-02-30"}', "(j ->> 'a')::date"), ('{"a": "29/02/2024"}', "(j ->> 'a')::date"),
    ('{"a": "2024-02-29 12:34:56"}', "(j ->> 'a')::timestamptz"),
    ('{"a": "now"}', "(j ->> 'a')::timestamp"), ('{"a": 1}', "json_array_length(j -> 'a')"),
]  # fmt: skip


def test_a_value_that_is_refused_is_poison_of_its_row(
    spark: SparkSession, table: TableVersion
) -> None:
    from pyspark.errors import PySparkException

    for number, (document, text) in enumerate(_REFUSED):
        row = {**dict.fromkeys(column.name for column in table.columns), "id": 1, "j": document}
        records = [event(1, 1, row, schema_id=table.schema_id)]
        events = fold()(parse(["id", "j"], {})(kafka_frame(spark, records)))
        found: Exception | None = None
        try:
            _evaluated(events, table, [text])
        except PySparkException as error:
            found = translate(error, "v")
        assert isinstance(found, UnfitValueError), (number, text, found)


def test_postgresql_is_given_its_own_words_back(
    in_postgres: psycopg.Connection[tuple[Any, ...]],
) -> None:
    differ = []
    for text in EXPRESSIONS:
        statement = parse_view("v", "s", ["id"], f"select {text} as e from samples").statement
        words = written(statement.expressions[0].this)
        answer = in_postgres.execute(f"select {text}, {words} from samples".encode())
        assert answer.description is not None
        one, other = answer.description
        same = all(a == b for a, b in answer.fetchall()) and one.type_code == other.type_code
        differ += [] if same else [(text, words)]
    assert not differ


_FLOAT4 = 700


def _comparable(value: Any, single: bool = False) -> Any:
    if isinstance(value, float):
        exact = struct.unpack("f", struct.pack("f", value))[0] if single else value
        return "NaN" if math.isnan(value) else exact
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return str(value) if isinstance(value, UUID) else value
