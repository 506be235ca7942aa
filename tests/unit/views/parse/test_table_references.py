"""Which tables the SQL of a view reads, and the same SQL with other relations in their place."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from views.parse.table_references import reading, tables_read


def selected(schema: str, table: str) -> str:
    return f'(select 1 from "{schema}"."{table}")'


def mirrored(schema: str, table: str) -> str:
    return f'm."{schema}.{table}"'


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from orders", ["public.orders"]),
        ('select * from ORDERS join "Orders" using (id)', ["public.orders", "public.Orders"]),
        ("select * from s.a, public.b b2, a", ["s.a", "public.b", "public.a"]),
        ("table a", ["public.a"]),
        ("(select 1 from a) union all select 2 from b except table c", "abc"),
        ("select * from (a join b using (i)) full join only c on true", "abc"),
        ("select (select max(i) from b where b.i = a.i) from a", "ba"),
        ("select * from a where exists (table b) or i in (select i from c)", "abc"),
        ("select * from a, lateral (select * from b limit 1) l, unnest(a.t) u(t)", "ab"),
        ("with a as (select * from b) select * from a", "b"),
        ("with a as (select * from a) select * from a", "a"),
        ("with a as (select * from b) select * from public.a", "ba"),
        ("with a as (select 1), c as (select * from a, b) select * from c, d", "bd"),
        ("with a as (select * from c), c as (select 1) select * from a, c", "c"),
        ("with recursive t as (select i from a union all select b.i from b join t on true) "
         "select * from t", "ab"),
        ("select * from (with x as (select * from a) select * from x) y, x", "ax"),
        ("select case when exists (select from b) then 1 end, 'from c' from a -- from d", "ba"),
        ("select date_part('day', t), \"from\" from a where j -> 'x' ->> 0 = 'y'", "a"),
    ],
)  # fmt: skip
def test_tables_are_found_wherever_they_stand(sql: str, tables: list[str] | str) -> None:
    wanted = [f"public.{name}" for name in tables] if isinstance(tables, str) else tables
    assert [table.name for table in tables_read("v", sql)] == wanted


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        ("select a.x from a;", 'select a.x from (select 1 from "public"."a") as "a"'),
        ("select b.x from s.a as b", 'select b.x from (select 1 from "s"."a") as b'),
        ("select b.x from a b(x)", 'select b.x from (select 1 from "public"."a") b(x)'),
        ("select * from only a", 'select * from (select 1 from "public"."a") as "a"'),
        ("select * from a * where b", 'select * from (select 1 from "public"."a") as "a" where b'),
        ("table a", 'select * from (select 1 from "public"."a") as "a"'),
        (
            "select S.A.x, public.a.* from s.a, public.b",
            'select A.x, public.a.* from (select 1 from "s"."a") as "a", '
            '(select 1 from "public"."b") as "b"',
        ),
        (
            "with a as (select * from a) select * from a",
            'with a as (select * from (select 1 from "public"."a") as "a") select * from a',
        ),
        ("; select 'a', \"é\" from a ; -- a", "select 'a', \"é\" from "
         '(select 1 from "public"."a") as "a" '),
    ],
)  # fmt: skip
def test_selects_stand_for_tables(sql: str, made: str) -> None:
    assert reading("v", sql, selected) == made


def test_another_name_stands_for_a_table_and_its_columns_keep_their_prefix() -> None:
    sql = "select public.a.x, a.y from a where exists (select from only b)"
    made = 'select public.a.x, a.y from m."public.a" where exists (select from m."public.b")'
    assert reading("v", sql, mirrored) == made


@pytest.mark.parametrize("sql", ["select 1; select 2", "delete from a", "Select from where", ""])
def test_what_is_not_one_select_is_refused(sql: str) -> None:
    with pytest.raises(ViewError, match=r"views\.v\.sql"):
        tables_read("v", sql)


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ViewError, match="too deep"):
        tables_read("v", "select " + " + ".join(["x"] * 5000) + " from a")
