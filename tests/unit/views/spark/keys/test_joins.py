"""Views over several tables: what is understood, and what is refused with which reason."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from tests.support.views.shop import TABLES
from views.parse.definition import parse_view
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion, parse_version
from views.types import INT4, PgType


def view(sql: str, *key: str, tables: dict[str, TableVersion] = TABLES) -> MaintainedView:
    return resolve_maintained(parse_view("v", "store", key or ("id",), sql), tables)


O_C = "from orders o join customers c on c.id = o.customer_id"
O_L = "from orders o left join lines l on l.order_id = o.id"


@pytest.mark.parametrize(
    "sql",
    [
        f"select o.id, c.name {O_C}",
        "select o.id, c.name from orders o left outer join customers c on o.customer_id = c.id",
        "select o.id from orders o inner join customers c on (c.id = o.customer_id and c.id > 1)",
        "select id, name from orders join customers using (id)",
        "select o.id, c.name, r.name as region from orders o join customers c "
        "on c.id = o.customer_id left join regions r on r.code = c.region",
        "select c.id, p.name from customers c left join customers p on p.id = c.parent_id",
        "select o.id, count(*) as n from orders o group by o.id",
        f"select o.id, o.total, o.note, count(l.no) as n {O_L} group by o.id",
        "select customer_id as id, sum(total) as s from orders where customer_id > 0 group by 1",
        f"select coalesce(c.region, '?') as id, count(*) as n {O_C} group by 1",
        "select o.id, c.name from orders o left join customers c "
        "on c.id = o.customer_id and c.name <> 'x' and o.day > '2020-01-01'",
        "select lower(c.name) as id, count(*) as n from customers c "
        "where lower(c.name) is not null group by lower(c.name)",
    ],
)
def test_joins_by_equality_and_groups_are_understood(sql: str) -> None:
    assert view(sql).key == ("id",)


def test_which_views_are_maintained_over_mirrors() -> None:
    for sql in (f"select o.id {O_C}", "select count(*) as id from orders group by id"):
        assert parse_view("v", "s", ["id"], sql).maintained
    assert not parse_view("v", "s", ["id"], "select id from orders").maintained


def test_a_star_is_every_column_and_using_shows_one_of_two() -> None:
    found = view("select o.*, c.name from orders o join customers c on c.id = o.customer_id")
    assert [output.name for output in found.outputs][:2] == ["id", "customer_id"]
    found = view("select * from lines join products using (sku)", "order_id", "no")
    assert [o.name for o in found.outputs].count("sku") == 1


def test_types_are_postgresqls() -> None:
    found = view(
        "select c.id, count(*) as n, sum(o.customer_id) as si, sum(o.big) as sb, "
        "sum(o.total) as st, avg(o.total) as a, round(avg(o.total), 2) as r, min(o.day) as d, "
        'max(c.name collate "C") as t, bool_and(o.paid) as b, '
        "array_agg(o.total order by o.id) as l, json_agg(json_build_object('a', o.id, 'b', "
        "json_build_object('c', o.note))) as j, string_agg(o.note, ',' order by o.id) as g "
        "from customers c join orders o on o.customer_id = c.id group by c.id"
    )
    assert {output.name: str(output.type) for output in found.outputs} == {
        "id": "int4", "n": "int8", "si": "int8", "sb": "numeric(29,0)", "st": "numeric(20,2)",
        "a": "numeric", "r": "numeric(38,2)", "d": "date", "t": "text", "b": "bool",
        "l": "numeric(10,2)[]", "j": "(a int4, b (c text))[]", "g": "text",
    }  # fmt: skip
    spark = {output.name: output.type.spark for output in found.outputs}
    assert spark["j"] == "array<struct<`a`: int, `b`: struct<`c`: string>>>"
    assert spark["a"] == "string"


def test_a_mirror_holds_what_is_read_and_the_key() -> None:
    found = view(f"select o.id, c.name {O_C} left join customers p on p.id = c.parent_id")
    assert found.mirrored() == {
        "public.orders": ("id", "customer_id"),
        "public.customers": ("id", "name", "parent_id"),
    }


def test_the_source_is_read_with_fixed_orders_and_its_own_words() -> None:
    found = view(
        "select o.id, o.total, collect_list(struct(l.sku, l.qty as n)) as lines "
        f"{O_L} group by o.id"
    )
    sql = found.reading(lambda schema, table: f"select * from only {schema}.{table}")
    assert 'FROM (select * from only public.orders) AS "o"' in sql
    assert '(array_agg("o"."total"))[1] AS "total"' in sql
    assert (
        """coalesce(json_agg(json_build_object('sku', ("l"."sku")::text, 'n', ("l"."qty")::text) """
        """ORDER BY "l"."order_id" ASC NULLS LAST, "l"."no" ASC NULLS LAST), '[]'::json)"""
    ) in sql


def test_the_words_of_the_declaration_are_kept_for_several_tables() -> None:
    sql = "select o.id from orders o -- all\n join orders on orders.id = o.id"
    read = parse_view("v", "s", ["id"], sql).reading(lambda s, t: f"select 1 from {s}.{t}")
    assert read == (
        "select o.id from (select 1 from public.orders) o -- all\n"
        ' join (select 1 from public.orders) as "orders" on orders.id = o.id'
    )


def test_nullability_is_read_from_the_schemas_topic() -> None:
    columns = [
        {"name": name, "base": "int4", "typmod": -1, "element": None, "nullable": nullable}
        for name, nullable in (("id", False), ("a", True))
    ]
    record = {"schema_id": "0", "schema": "p", "table": "t", "columns": columns, "key": ["id"]}
    assert [column.nullable for column in parse_version(record).columns] == [False, True]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "select o.id from orders o, customers c",
            "column 28: customers AS c: several .*Write JOIN",
        ),
        ("select o.id from orders o cross join customers c", "every row of the other"),
        ("select o.id from orders o natural join customers c", "Write USING|NATURAL"),
        ("select c.id from orders o right join customers c on c.id = o.id", "RIGHT JOIN is not"),
        ("select o.id from orders o full join customers c on c.id = o.id", "FULL JOIN is not"),
        ("select o.id from orders o join customers c on c.id > o.id", "no equality between c"),
        ("select o.id from orders o join customers c on c.id = 1", "no equality between c"),
        (
            "select o.id from orders o join customers c on true",
            "column 32: JOIN customers AS c ON TRUE: ON has no equality between c",
        ),
        (
            "select o.id from orders o join customers c on c.id = o.id or c.id = o.customer_id",
            "no equality",
        ),
        ("select o.id from orders o join customers o on true", "two tables are called 'o'"),
        ("select o.id from orders o join lateral (select 1) c on true", "subqueries"),
        ("select o.id from orders o join (select 1) c on true", "subqueries"),
        ("select o.id from orders o join (lines l join products p on true) on true", "subqueries"),
        ("select o.id from orders o join generate_series(1, 2) g on g = o.id", "only a table"),
        (f"select distinct o.id {O_C}", "DISTINCT is not supported"),
        (f"select o.id {O_C} order by 1", "ORDER BY means nothing"),
        (f"select o.id {O_C} limit 1", "LIMIT cannot"),
        ("select id from orders group by rollup (id)", "only plain GROUP BY"),
        ("select id from orders group by all", "only plain GROUP BY"),
        ("select o.id from orders o join customers __c on true", "reserved"),
        (f"with x as (select 1) select o.id {O_C}", "WITH is not"),
        (f"select o.id {O_C} union select 1", "UNION"),
    ],
)
def test_what_text_alone_refuses(sql: str, reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        view(sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"select id {O_C}", r"column 8: id: more than one table .*"),
        (f"select o.id,\n x.name {O_C}", "line 2, column 2: x.name: no table 'x' here"),
        (f"select o.id, colour {O_C}", "no table has such a column"),
        (f"select o.id, o.colour {O_C}", "orders has no such column"),
        (f"select o.id, orders.note {O_C}", "no table 'orders' here"),
        (f"select o.id, c {O_C}", "a whole row is not a value"),
        (f"select o.id, public.orders.id {O_C}", "named by its table's alias"),
        (
            "select o.id from orders o join customers c on c.id = l.no join lines l on l.no = o.id",
            "'l' is joined only later",
        ),
        ("select o.id from orders o join lines l using (id)", "lines have no such column"),
        ("select id from orders join lines using (note)", "cannot be in USING"),
        (f"select o.id, upper(c.name) {O_C}", "needs a name"),
        (f"select o.id, c.id {O_C}", "two columns are called 'id'"),
        (f"select o.id, random() as r {O_C}", "line 1, column 14: .*without a change of the row"),
        (f"select o.id, now() as r {O_C}", "without a change of the row"),
        (f"select o.id, current_date as r {O_C}", "without a change of the row"),
        (f"select o.id, nextval('s') as r {O_C}", "without a change of the row"),
        (f"select o.id, localtimestamp as r {O_C}", "without a change of the row"),
        (f"select o.id {O_C} and c.name = clock_timestamp()::text", "without a change of the row"),
        (f"select o.id, frob(c.name) as r {O_C}", "frob is not known to agree"),
        (f"select o.id, (select 1) as r {O_C}", "subqueries"),
        (f"select o.id {O_C} where o.id in (select 1)", "subqueries"),
        (f"select o.id, sum(o.id) over () as r {O_C}", "window functions"),
        (f"select o.id, row_number() over (partition by o.id) as r {O_C}", "window functions"),
        (f"select o.id {O_C} where count(*) > 1", "an aggregate has no place here"),
        (f"select o.id {O_C} group by o.id, count(*)", "an aggregate has no place here"),
        (f"select o.id, max(count(*)) as n {O_C} group by o.id", "an aggregate has no place here"),
        (f"select o.id, c.name {O_C} group by o.id", r"c\.name.*has many values in a group"),
        (f"select o.id {O_C} group by 2", "there is no column 2"),
        ("select count(*) as id from orders", "one row without a key"),
        ("select id from orders having count(*) > 1", "one row without a key"),
        ("select id, stddev(total) as n from orders group by id", "not maintained"),
        ("select id, array_agg(distinct note) as n from orders group by id", "DISTINCT inside"),
        ("select id, sum(score) as n from orders group by id", "float8 values have a sum"),
        ("select id, avg(score) as n from orders group by id", "float8 values have a sum"),
        ("select id, sum(amount) as n from orders group by id", "without limits"),
        ("select id, sum(note) as n from orders group by id", "text is not a number"),
        ("select id, max(note) as n from orders group by id", 'write COLLATE "C"|order of text'),
        ("select id, min(paid) as n from orders group by id", "no min of bool"),
        (
            "select id, count(distinct extra) as n from orders group by id",
            "be distinguished",
        ),
        ("select id, array_agg(note order by note) as n from orders group by id", "order of text"),
        ("select id, array_agg(tags) as n from orders group by id", "arrays of arrays"),
        ("select id, json_agg(json_build_object(note, 1)) as n from orders group by id", "literal"),
        ("select id, collect_list(struct(id + 1)) as n from orders group by id", "needs a name"),
        ("select id, avg(total) > 1 as n from orders group by id", "cast it: ::numeric|without"),
        ("select id, array_agg('x') as n from orders group by id", "the type of this literal"),
        ("select id, cardinality(json_agg(note)) as n from orders group by id", "is JSON"),
        (
            "select id, (array_agg(json_build_object('a', note)))[1] as n from orders group by id",
            "is JSON",
        ),
        (
            "select id, case when paid then json_build_object('a', id)"
            " else json_build_object('b', id) end as n from orders",
            r"mixes \(a int4\) and \(b int4\)",
        ),
        ("select extra as id from orders group by extra", "are not grouped here"),
        ("select amount as id from orders group by amount", "without limits"),
        ("select id from orders o join nowhere n on n.id = o.id", "nowhere is not captured"),
    ],
)
def test_what_the_tables_refuse(sql: str, reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        view(sql)


def test_the_candidates_of_an_ambiguous_name_are_told() -> None:
    with pytest.raises(ViewError) as caught:
        view(f"select id {O_C}")
    assert caught.value.hint == "Write o.id or c.id."


def test_a_table_without_a_key_is_refused_where_it_stands() -> None:
    orders = TABLES["public.orders"]
    bare = TableVersion("b" * 16, "public", "orders", orders.columns, ())
    with pytest.raises(ViewError, match=r"line 2, column 6: .*public\.orders has no key"):
        view("select c.id from customers c\njoin orders o on c.id = o.id",
             tables={**TABLES, "public.orders": bare})  # fmt: skip


def test_values_in_objects_are_as_postgresql_shows_them_there() -> None:
    columns = [TableColumn(name, PgType(name)) for name in ("bpchar", "inet", "int8")]
    table = TableVersion("k" * 16, "public", "kinds", (TableColumn("id", INT4), *columns), ("id",))
    sql = "select id, json_build_object('a', bpchar, 'b', inet, 'c', int8) as o from kinds"
    said = view(sql, tables={table.name: table}).reading(lambda schema, name: f"{schema}.{name}")
    assert """'a', "kinds"."bpchar", 'b', "kinds"."inet", 'c', ("kinds"."int8")::text""" in said


@pytest.mark.parametrize("sign", [" || ", " + "])
def test_long_chains_are_read_once(sign: str) -> None:
    chain = sign.join(["note" if sign == " || " else "total"] * (40 if sign == " || " else 20))
    assert view(f"select id, {chain} as x from orders").describe().startswith("id int4, x ")
