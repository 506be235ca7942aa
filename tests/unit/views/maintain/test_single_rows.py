"""Of which SQL there is a history: each of its rows is made of one row of one table."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from jobs.state.views.view_names import TableNames, ViewNames
from tests.sql_maintenance.shop_tables import TABLES
from views.histories import KeyColumn, history_key
from views.maintain import MirrorColumn, MirrorTable, plan_view

KEYS = {label: table.key for label, table in TABLES.items()}


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("select id, status ~ '^o' as open from orders", "id"),
        ("select id as k, placed at time zone 'Europe/Berlin' as at from orders o", "k"),
        ("with some as (select * from orders where total > 1) select id, note from some", "id"),
        ("select s.id, s.n from (select id, note || '!' as n from orders) s where s.n <> ''", "id"),
        ("select id, (select max(t) from unnest(tags) t) as last from orders", "id"),
        (
            "select o.id, t.n from orders o left join lateral "
            "(select count(*) as n from unnest(o.tags) t where t <> '') t on true",
            "id",
        ),
        ("select o.id, v.l from orders o left join (values ('open', 1)) v(s, l) on v.s = o.status",
         "id"),
        ("select id, jsonb_build_object('a', note, 'b', total) as doc from orders", "id"),
        ("select distinct id, status from orders", "id"),
        ("select id, count(t) as n from orders, unnest(tags) t group by id", "id"),
        ("select id, rank() over (partition by id order by note) as r from orders", "id"),
        ("select distinct on (id) id, t from orders, unnest(tags) t order by id, t", "id"),
    ],
)  # fmt: skip
def test_sql_that_gives_each_row_alone_what_it_gives_all(sql: str, key: str) -> None:
    plan = plan_view("v", sql, (key,), TABLES)
    assert history_key("log", plan, KEYS, ViewNames()) == (KeyColumn(key, "id"),)


def test_a_key_may_be_shown_as_text() -> None:
    """So may one whose equal values differ: 1.0 and 1.00 are one row, and two texts."""
    columns = (MirrorColumn("k", "numeric", False, False), MirrorColumn("x", "integer"))
    tables = {"public.t": MirrorTable("public", "t", columns, ("k",))}
    plan = plan_view("v", "select k::text as id, x from t where x > 1", ("id",), tables)
    found = history_key("log", plan, {"public.t": ("k",)}, ViewNames())
    assert found == (KeyColumn("id", "k", is_text=True),)
    with pytest.raises(ViewError, match="equal values can have different text") as told:
        plan_view("v", "select k, x from t", ("k",), tables)
    assert told.value.hint == "Make it text or a number of one form: k::text."


@pytest.mark.parametrize(
    ("sql", "key", "reason"),
    [
        ("select o.id, c.city from orders o join customers c on c.id = o.customer_id", "id",
         "it reads several tables"),
        ("select a.id, count(*) as n from orders a join orders b on b.note = a.note group by a.id",
         "id", "it reads its table 2 times"),
        ("select id, (select max(total) from orders) as top from orders", "id",
         "it reads its table 2 times"),
        ("select coalesce(status, '') as status, count(*) as n from orders group by 1", "status",
         "GROUP BY without the table's key"),
        ("select 1 as one, count(*) as n from orders", "one", "an aggregate"),
        ("select id, row_number() over (order by id) as n from orders", "id",
         "a window over several rows"),
        ("select id, lag(id) over (partition by status order by id) as l from orders", "id",
         "a window over several rows"),
        ("select distinct on (status) status, id from orders order by status, id", "status",
         "DISTINCT ON without the table's key"),
        ("select distinct status from orders", "status", "DISTINCT without the table's key"),
        ("select id, note from orders order by id limit 3", "id", "LIMIT or OFFSET"),
        ("select v.n, o.note from orders o right join (values (1), (2)) v(n) on v.n = o.id", "n",
         "an outer join gives rows without one of the table"),
        ("select n, (select o.note from orders o where o.id = n) as note from (values (1)) v(n)",
         "n", "a subquery reads the table"),
        ("select 1 as n, id from orders union all select 2, 0", "n, id",
         "a set operation or a recursive query"),
    ],
)  # fmt: skip
def test_what_takes_several_rows_together_is_told(sql: str, key: str, reason: str) -> None:
    plan = plan_view("v", sql, key.split(", "), TABLES)
    with pytest.raises(ViewError) as told:
        history_key("scd2", plan, KEYS, ViewNames())
    assert told.value.message == (
        f'view v: no history = "scd2" for rows computed from several rows ({reason}): they are'
        " recomputed once per batch, so states in between are not known"
    )


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("select coalesce(id, 0) as id from orders", "id"),
        ("select o.id, t.n from orders o, unnest(o.tags) with ordinality t(v, n)", "id, n"),
        ("select order_id, quantity from lines where no = 1", "order_id"),
    ],
)
def test_a_key_that_is_not_the_table_s_is_told(sql: str, key: str) -> None:
    plan = plan_view("v", sql, key.split(", "), TABLES)
    with pytest.raises(ViewError, match=r"a history follows the rows of public\.\w+, whose key"):
        history_key("log", plan, KEYS, ViewNames())


def test_sql_that_reads_the_clock_has_no_history() -> None:
    plan = plan_view("v", "select id from orders where placed < now()", ("id",), TABLES)
    with pytest.raises(ViewError, match="its SQL also changes with time"):
        history_key("log", plan, KEYS, ViewNames())


def test_the_key_has_the_name_that_its_column_has_now() -> None:
    names = ViewNames(
        {"public.orders": TableNames(1, {"id": 1})}, {"public.orders": {"id": "number"}}
    )
    plan = plan_view("v", "select id as k from orders", ("k",), TABLES)
    found = history_key("log", plan, {"public.orders": ("number",)}, names)
    assert found == (KeyColumn("k", "number"),)
