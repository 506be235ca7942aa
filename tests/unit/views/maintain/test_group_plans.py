"""Which views keep their groups by the change, and why others do not."""

from __future__ import annotations

import pytest

from tests.sql_maintenance.shop_tables import TABLES
from views.maintain import Index, ViewPlan, plan_view


def _plan(sql: str, *key: str) -> ViewPlan:
    return plan_view("v", sql, key, TABLES)


def test_groups_of_one_table_follow_its_images() -> None:
    plan = _plan("select status, count(*) as n, sum(total) as t from orders group by status",
                 "status")  # fmt: skip
    assert plan.groups is not None
    assert plan.groups.table == "public.orders"
    assert plan.groups.keys == (("k0", "status"),)
    changed = plan.groups.changed(lambda table: f"m.{table}", "images")
    assert "images" in changed
    assert "m.public" not in changed


def test_groups_of_joins_follow_the_rows_with_touched_keys() -> None:
    plan = _plan(
        "select c.id, c.name, count(o.id) as n from customers c "
        "left join orders o on o.customer_id = c.id group by c.id, c.name",
        "id",
    )
    assert plan.groups is not None
    assert plan.groups.table == ""
    assert plan.groups.others == ("o0",)
    assert plan.groups.anchors == (("public.customers", "id"),)
    assert {table for table, _ in plan.groups.touched_templates} == {
        "public.customers",
        "public.orders",
    }


@pytest.mark.parametrize(
    "sql",
    [
        "with large as (select id, status, total from orders where total > 1) "
        "select l.status, sum(l.total) as t, count(*) as n from large l group by l.status",
        "select s as status, sum(t) as t, count(*) as n from (select upper(q.status) as s, q.t "
        "from (select o.*, total + 1 as t from orders o) q where q.t > 2) q where t < 9 group by s",
        "select q.status, count(t) as n from (select status, tags from orders) q, unnest(q.tags) t "
        "group by q.status",
    ],
)
def test_tables_stand_in_the_place_of_those_that_only_filter_them(sql: str) -> None:
    groups = _plan(sql, "status").groups
    assert groups is not None
    assert groups.table == "public.orders"


def test_the_condition_of_a_table_that_a_row_may_lack_stands_in_on() -> None:
    plan = _plan(
        "select c.id, count(o.total) as n, count(*) as rows from customers c left join "
        "(select customer_id, total from orders where total > 1) o on o.customer_id = c.id "
        "group by c.id",
        "id",
    )
    assert plan.groups is not None
    body = plan.groups.body(lambda table: table)
    assert "WHERE" not in body
    assert '("orders"."total" > 1)' in body


@pytest.mark.parametrize(
    "of_orders",
    [
        "(select customer_id, total + 1 as total from orders)",  # not NULL where the row is missing
        "(select customer_id, 7 as total from orders)",
        "(select customer_id, total from orders order by id limit 3)",
        "(select customer_id, (select max(l.no) from lines l where l.order_id = o.id) as total "
        "from orders o)",
    ],
)
def test_other_derived_tables_stay(of_orders: str) -> None:
    plan = _plan(f"select c.id, count(o.total) as n from customers c left join {of_orders} o "
                 "on o.customer_id = c.id group by c.id", "id")  # fmt: skip
    assert plan.groups is None
    assert plan.groups_reason in ("FROM holds a subquery", "it may be computed whole")


def test_the_first_and_the_last_of_a_group_are_looked_up_by_an_index() -> None:
    plan = _plan("select order_id, min(id) as a, max(id) as z from payments "
                 "where order_id is not null group by order_id", "order_id")  # fmt: skip
    assert plan.groups is not None
    assert Index("public.payments", ("order_id", "id")) in plan.indexes
    assert plan.rows(lambda table: table, "keys").count("ORDER BY") == 0
    assert plan.groups.rows(lambda table: table, "select 1", "keys").count("LIMIT 1") == 2


@pytest.mark.parametrize(
    ("sql", "key", "why"),
    [
        ("select id, status from orders", "id", ""),
        ("select status, count(distinct total) as n from orders group by status", "status",
         "told apart"),
        ("select status, string_agg(note, ',' order by id) as n from orders group by status",
         "status", "all rows of its group"),
        ("select status, stddev(total) as n from orders group by status", "status", "all rows"),
        ("select coalesce(o.status, '-') as s, count(*) as n from orders o full join payments p "
         "on p.order_id = o.id group by 1", "s", "FULL JOIN"),
        ("select s, count(*) as n from (select distinct id, status as s from orders) q group by s",
         "s", "a subquery"),
        ("select status, max(total) as n from orders group by status", "status", "no index"),
        ("select status, max(id) - max(total + 1) as n from orders group by status", "status",
         "of an expression"),
        ("select c.id, max(o.id) as n from customers c join orders o on o.customer_id = c.id "
         "group by c.id", "id", "several tables"),
        ("select status, (select max(id) from payments) as n from orders group by status",
         "status", "whole"),
        ("select o.status, count(*) filter (where o.placed < now()) as n from orders o "
         "group by o.status", "status", "time alone"),
    ],
)  # fmt: skip
def test_other_groups_are_made_of_their_rows(sql: str, key: str, why: str) -> None:
    plan = _plan(sql, key)
    assert plan.groups is None
    assert (why in plan.groups_reason) if why else plan.groups_reason == ""
