"""Plans of views over mirrors: what is found by keys, how, and what is left whole."""

from __future__ import annotations

import pytest

from tests.sql_maintenance.shop_tables import TABLES
from views.maintain import Index, MirrorColumn, MirrorTable, ViewPlan, plan_view


def _plan(sql: str, *key: str) -> ViewPlan:
    return plan_view("v", sql, key, TABLES)


def _flavours(plan: ViewPlan) -> dict[str, str]:
    return {query.alias: query.flavour for query in plan.key_queries}


def test_inner_joins_take_the_images_in_place_of_their_table() -> None:
    plan = _plan("select o.id, c.name from orders o join customers c on c.id = o.customer_id", "id")
    assert _flavours(plan) == {"o": "exact", "c": "exact"}
    (query,) = [query for query in plan.key_queries if query.alias == "o"]
    sql = query.sql(lambda table: f"m.{table}", "changed")
    assert "m.public" not in sql  # the key is in the changed rows


def test_a_key_that_shows_what_left_join_finds_is_looked_up_in_both_states() -> None:
    sql = (
        "select o.id, coalesce(p.id, 0) as pay from orders o "
        "left join payments p on p.order_id = o.id"
    )
    assert _flavours(_plan(sql, "id", "pay")) == {"o": "exact", "p": "beside"}


def test_only_columns_that_are_read_are_asked_of_a_mirror() -> None:
    plan = _plan("select id, status from orders where total > 1", "id")
    assert plan.reads == {"public.orders": ("id", "status", "total")}


def test_the_text_of_a_column_is_looked_up_where_it_is_the_key() -> None:
    plan = _plan("select id::text as key, status from orders", "key")
    assert Index("public.orders", (), 'CAST("id" AS TEXT)') in plan.indexes
    assert not any(index.expression for index in _plan("select id from orders", "id").indexes)
    columns = (MirrorColumn("k", "numeric(12,2)", False), MirrorColumn("l", "integer[]", False))
    tables = {"public.t": MirrorTable("public", "t", columns, ("k",))}
    plan = plan_view("v", "select k::text as k, l::text as l from t", ("k", "l"), tables)
    assert plan.indexes == (Index("public.t", (), 'CAST("k" AS TEXT)'),)


def test_a_whole_row_reads_all_columns() -> None:
    plan = _plan("select id, to_jsonb(c) as all from customers c", "id")
    assert plan.reads["public.customers"] == ("id", "name", "city", "referred_by", "vip")


@pytest.mark.parametrize(
    ("sql", "key", "reason"),
    [
        ("select id from orders order by total, id limit 3", "id", "LIMIT"),
        ("select sku, ntile(2) over (order by sku) as n from products", "sku", "PARTITION BY"),
    ],
)
def test_what_any_row_may_change_is_made_whole(sql: str, key: str, reason: str) -> None:
    plan = _plan(sql, key)
    assert plan.mode == "whole"
    assert reason in plan.reason
    assert set(plan.whole_tables) == set(plan.reads)


def test_a_view_may_be_whole_for_one_table_and_by_keys_for_another() -> None:
    plan = _plan("select o.id, c.id as c from orders o cross join customers c", "id", "c")
    assert set(plan.whole_tables) == {"public.orders", "public.customers"}
    sql = (
        "select c.id from customers c where not exists (select from products p where not exists "
        "(select from orders o join lines l on l.order_id = o.id "
        "where o.customer_id = c.id and l.sku = p.sku))"
    )
    plan = _plan(sql, "id")
    assert set(plan.whole_tables) == {"public.products"}
    assert {query.table for query in plan.key_queries} == {
        "public.customers", "public.orders", "public.lines",
    }  # fmt: skip


def test_a_subquery_that_is_tied_to_no_row_has_a_gate() -> None:
    plan = _plan("select id from orders where total > (select avg(total) from orders)", "id")
    (gate,) = plan.gates
    assert gate.table == "public.orders"
    assert "avg" in gate.sql(lambda table: table)
    assert [query.alias for query in plan.key_queries] == ["orders"]


def test_null_in_not_in_has_a_gate_beside_the_keys() -> None:
    sql = "select c.id from customers c where c.id not in (select o.customer_id from orders o)"
    plan = _plan(sql, "id")
    assert [gate.table for gate in plan.gates] == ["public.orders"]
    assert _flavours(plan) == {"c": "exact", "o": "exact"}


def test_columns_that_are_compared_are_indexed_and_keys_are_not() -> None:
    sql = (
        "select c.id, count(o.id) as n from customers c "
        "left join orders o on o.customer_id = c.id group by c.id"
    )
    assert _plan(sql, "id").indexes == (Index("public.orders", ("customer_id",)),)
    grouped = "select coalesce(city, '?') as city, count(*) as n from customers group by 1"
    (index,) = _plan(grouped, "city").indexes
    assert index.expression == "coalesce(\"city\", '?')"


def test_what_a_proof_takes_for_granted_is_said() -> None:
    sql = "select o.id, p.amount from orders o left join payments p on p.order_id = o.id"
    (said,) = _plan(sql, "id").assumes
    assert said == "at most one row of public.payments p matches ON p.order_id = o.id"


def test_the_clock_is_noticed() -> None:
    assert _plan("select id from orders where placed > now() - interval '1 day'", "id").clock
    assert not _plan("select id from orders", "id").clock


def test_keys_are_pushed_into_a_derived_table_along_an_equality() -> None:
    sql = (
        "select c.id, t.s from customers c left join (select customer_id, sum(total) as s "
        "from orders group by 1) t on t.customer_id = c.id"
    )
    rows = _plan(sql, "id").rows(lambda table: f"m.{table}", "wanted")
    inner = rows[rows.index("sum(") :]
    assert '"customer_id" = ANY(ARRAY(SELECT "id" FROM wanted))' in inner


def test_names_are_qualified_and_quoted() -> None:
    sql = 'select "Odd".id as "Id" from public.orders as "Odd"'
    plan = _plan(sql, "Id")
    assert plan.columns == ("Id",)
    assert 'AS "Id"' in plan.whole(lambda table: f"m.{table}")
