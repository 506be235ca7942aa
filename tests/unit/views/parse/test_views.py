"""View declarations: what is understood, and what is refused with which reason and place."""

from __future__ import annotations

import pytest
import sqlglot

from cdc.errors import ViewError
from views.parse.definition import parse_view
from views.spark.resolution import ResolvedView, resolve
from views.table_versions import TableColumn, TableVersion, parse_version
from views.types import DATE, INT4, TEXT, TIMESTAMPTZ, PgType, from_typmod, numeric

TABLE = TableVersion(
    "a" * 16,
    "public",
    "orders",
    (
        TableColumn("id", INT4),
        TableColumn("Total", numeric(10, 2)),
        TableColumn("note", TEXT),
        TableColumn("placed", TIMESTAMPTZ),
        TableColumn("day", DATE),
        TableColumn("amount", PgType("numeric")),
        TableColumn("tags", PgType("array", element="text")),
        TableColumn("state", PgType("enum")),
        TableColumn("extra", PgType("jsonb")),
    ),
    ("id",),
)


def view(sql: str, *key: str, table: TableVersion = TABLE) -> ResolvedView:
    return resolve(parse_view("v", "store", key or ("id",), sql), table)


def test_a_star_is_every_column_of_the_table() -> None:
    assert [output.name for output in view("select * from orders").outputs] == [
        column.name for column in TABLE.columns
    ]


def test_a_star_and_expressions_may_be_mixed() -> None:
    outputs = view("select o.*, o.id + 1 as next from public.orders o").outputs
    assert outputs[-1].name == "next"
    assert outputs[0].source == "id"


def test_identifiers_fold_as_in_postgresql() -> None:
    outputs = view('SELECT ID, "Total" AS Sum, NOTE AS "Note" FROM Orders').outputs
    assert [output.name for output in outputs] == ["id", "sum", "Note"]


def test_plain_columns_are_told_from_computed_ones() -> None:
    found = view("select id, note, upper(note) as loud from orders where day > '2024-01-01'")
    assert [output.source for output in found.outputs] == ["id", "note", None]
    assert found.computed_from == {"note", "day"}


def test_a_plain_projection_alone_computes_nothing() -> None:
    assert view("select id, note from orders").computed_from == frozenset()


def test_the_key_may_be_renamed_and_reordered() -> None:
    table = TableVersion("b" * 16, "public", "orders", TABLE.columns, ("id", "day"))
    assert view("select day as d, id as n from orders", "d", "n", table=table).key == ("d", "n")


def test_the_types_of_results_are_postgresqls() -> None:
    outputs = view(
        'select id, id / 2 as a, "Total" * 2 as b, extract(year from day) as c from orders'
    ).outputs
    assert [str(output.type) for output in outputs] == [
        "int4",
        "int4",
        "numeric(21,2)",
        "numeric(10,0)",
    ]


def test_a_numeric_without_limits_may_be_rounded_from_its_text() -> None:
    output = view("select id, round(amount, 2) as n from orders").outputs[1]
    assert (str(output.type), output.sql) == ("numeric(38,2)", "CAST(`amount` AS decimal(38,2))")


@pytest.mark.parametrize(
    "sql",
    ["select a.id from t a join t b on b.id = a.id", "select id, count(*) from t group by id"],
)
def test_rows_that_are_made_of_several_have_no_history(sql: str) -> None:
    assert parse_view("v", "s", ("id",), "select id from t", "log").history == "log"
    with pytest.raises(ViewError, match=r'no history = "scd2" for rows computed from several'):
        parse_view("v", "s", ("id",), sql, "scd2")


def test_layout_does_not_make_another_view() -> None:
    one = parse_view("v", "s", ["id"], "select id from orders where id > 1")
    two = parse_view("v", "s", ["id"], "SELECT id\n  FROM orders -- all\n WHERE id > 1; -- few")
    assert one.normalized == two.normalized


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("", ";"),
        ("", " -- all;\n; -- few"),
        ("", ";; /* all; */ -- few"),
        ("; /* all */ ;", ""),
        ("/* all; */ ", " /* few; */"),
    ],
)
def test_what_postgresql_is_given_may_be_a_subquery(begin: str, end: str) -> None:
    definition = parse_view("v", "s", ["id"], f"{begin}select id, ';' as x from orders{end}")
    read = definition.reading(lambda schema, table: f"select * from {schema}.{table}")
    own = sqlglot.parse_one(f"select id, x from (\n{read}\n) as v", read="postgres")
    assert own.sql("postgres", comments=False) == (
        "SELECT id, x FROM (SELECT id, ';' AS x FROM (SELECT * FROM public.orders) AS \"orders\")"
        " AS v"
    )


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("selec id from orders", "line 1, column 10: does not parse"),
        ("select id from orders where", "does not parse"),
        ("select 'x", "does not parse"),
        ("select 1; select 2", "2 statements"),
        ("delete from orders", "is not a SELECT"),
        ("select 1 as id", "reads no table"),
        ("select o.id from orders o, lines l", "JOIN"),
        ("select id from (select 1 as id) x", "subqueries"),
        ("select id from orders union select id from orders", "UNION"),
        ("with x as (select 1) select id from x", "WITH"),
        ("select distinct id from orders", "DISTINCT"),
        ("select id from orders order by id", "ORDER BY"),
        ("select id from orders limit 1", "LIMIT"),
        ("select id from orders for update", "locks"),
        ("select id from generate_series(1, 2) id", "only a table"),
        ("select id from other.public.orders", "database"),
    ],
)
def test_what_is_no_view_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        parse_view("v", "s", ["id"], sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select id, colour from orders", r"column 12: colour: public\.orders has no such column"),
        ("select id, x.note from orders", "no table 'x'"),
        ("select id, upper(note) from orders", "needs a name"),
        ("select id, note as id from orders", "two columns are called 'id'"),
        ("select id, note as __deleted from orders", "reserved"),
        ("select id, now() as t from orders", "without a change of the row"),
        ("select id, current_date as t from orders", "without a change of the row"),
        ("select id, random() as t from orders", "without a change of the row"),
        ("select id, clock_timestamp() as t from orders", "without a change of the row"),
        ("select id, gen_random_uuid() as t from orders", "without a change of the row"),
        ("select id, count(*) as n from orders", "an aggregate"),
        ("select id, sum(id) over () as n from orders", "window functions|aggregates"),
        ("select id, (select 1) as n from orders", "subqueries"),
        ("select id from orders where id in (select 1)", "subqueries"),
        ("select id, foo(note) as n from orders", "function foo is not known to agree"),
        ("select id, note ~ 'x' as n from orders", "not known here"),
        ("select id, note < 'x' as n from orders", "collation"),
        ("select id, state > 'new' as n from orders", "collation"),
        ("select id, placed::date as d from orders", "AT TIME ZONE 'UTC'"),
        ("select id, date_trunc('day', placed) as d from orders", "TimeZone"),
        ("select id, amount + 1 as n from orders", "without limits"),
        ('select id, "Total" / 3 as n from orders', "numeric division"),
        ("select id, note + 1 as n from orders", "text is not a number"),
        ("select id, note || tags as n from orders", "text and text\\[\\]. Write ::text"),
        ("select id from orders where note", "text, not boolean"),
        ("select id from orders where day > 'tomorrow'", "not a plain date literal"),
        ("select id, substring(note, -1) as n from orders", "-1 is below 1"),
        ("select id, left(note, -2) as n from orders", "-2 is below 0"),
        ("select id, left(note, id) as n from orders", "has to be an integer that is written out"),
        ("select id, tags[0] as t from orders", "0 is below 1"),
        ("select id, tags[-1] as t from orders", "-1 is below 1"),
        ("select id, tags[1:2] as t from orders", "has to be an integer that is written out"),
        ("select id, case when id > 1 then note else id end as n from orders", "mixes"),
        ("select id, extra = '{}' as n from orders", "cannot be compared|not a plain jsonb"),
        ("select id, extra->>note as n from orders", "has to be a literal"),
        ("select id, note->>'a' as n from orders", "text is no json"),
        ("select id, extra->>'a'->'b' as n from orders", "is text, which has no parts"),
        ("select id, coalesce(extra, extra)->'b' as n from orders", "of a column's value only"),
        ("select id, extra #> '{a,null}' as n from orders", "NULL in it"),
        ("select id, extra #> '{a' as n from orders", "is no array"),
        ("select id, extra -> 2147483648 as n from orders", "no element 2147483648"),
        ("select id, extra -> 'a' = 'x' as n from orders", "not a plain jsonb"),
        ("select id, extra -> 'a' = '[]' as n from orders", "Compare its text"),
        ("select id, (extra -> 'a')::int as n from orders", "Take its text first"),
        ("select id, extra['a'] as n from orders", "Write -> 'name'"),
        ("select id, extra @> note as n from orders", "has to be a literal"),
        ("select id, extra @> '{' as n from orders", "no jsonb"),
        ("select id, extra @> 'NaN' as n from orders", "no jsonb"),
        ("select id, extra ?| array['a'] as n from orders", "this operator on JSON"),
        ("select id, extra - 'a' as n from orders", "jsonb is not a number"),
        ("select id, json_typeof(extra) as n from orders", "Write jsonb_typeof"),
        ("select id, json_extract_path(extra, 'a') as n from orders", "Write ->"),
        ("select id, (upper(note))::numeric as n from orders", "numeric without limits"),
        ("select id, id::interval as n from orders", "not cast to here"),
    ],
)
def test_what_is_not_known_to_agree_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        view(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select id from orders where " + " or ".join(f"note like 'a{i}%'" for i in range(1_000)),
        f"select {' + '.join(['id'] * 3_000)} as n, id from orders",
        f"select {'(' * 500}id{')' * 500} as n, id from orders",
    ],
)
def test_sql_that_is_nested_too_deep_is_refused(sql: str) -> None:
    with pytest.raises(ViewError, match="view v: its SQL is nested too deep"):
        view(sql)


def test_a_key_that_names_a_column_twice_is_refused() -> None:
    with pytest.raises(ViewError, match=r"views\.v\.key: a column is named twice"):
        parse_view("v", "s", ["id", "note", "id"], "select id, note from orders")


@pytest.mark.parametrize(
    ("sql", "key", "reason"),
    [
        ("select note from orders", "id", "'id' is not a column of the view"),
        ("select id, note from orders", "note", "is not unique in the view"),
        ("select id + 0 as id from orders", "id", "is not unique in the view"),
    ],
)
def test_a_key_that_does_not_identify_rows_is_refused(sql: str, key: str, reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        view(sql, key)


def test_a_table_without_a_key_is_refused() -> None:
    table = TableVersion("b" * 16, "public", "orders", TABLE.columns, ())
    with pytest.raises(ViewError, match=r"public\.orders has no key"):
        view("select id from orders", table=table)


@pytest.mark.parametrize(
    ("base", "typmod", "element", "spark"),
    [
        ("int8", -1, None, "bigint"),
        ("numeric", (10 << 16 | 2) + 4, None, "decimal(10,2)"),
        ("numeric", -1, None, "string"),
        ("numeric", (60 << 16 | 2) + 4, None, "string"),
        ("numeric", (3 << 16 | (-2 & 0x7FF)) + 4, None, "string"),
        ("timestamp", -1, None, "timestamp_ntz"),
        ("array", -1, "int4", "array<int>"),
        ("array", (10 << 16 | 2) + 4, "numeric", "array<decimal(10,2)>"),
        ("enum", -1, None, "string"),
        ("interval", -1, None, "string"),
    ],
)
def test_types_are_held_exactly(base: str, typmod: int, element: str | None, spark: str) -> None:
    assert from_typmod(base, typmod, element).spark == spark


def test_a_version_is_read_from_the_schemas_topic() -> None:
    record = {
        "schema_id": "0" * 16,
        "schema": "public",
        "table": "t",
        "columns": [{"name": "id", "base": "int4", "typmod": -1, "element": None}],
        "key": ["id"],
    }
    assert parse_version(record).describe() == "id int4"
