"""Which views keep their groups by the change, and why others do not."""

from __future__ import annotations

import pytest

from tests.maintain.shop_tables import TABLES
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
        ("select s, count(*) as n from (select status as s from orders) q group by s", "s",
         "a subquery"),
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
