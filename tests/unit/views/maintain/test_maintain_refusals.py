"""What no view over mirrors can be: refused with the place, the reason and the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.errors import ViewError
from tests.sql_maintenance.shop_tables import TABLES
from views.maintain import MirrorColumn, MirrorTable, plan_view
from views.maintain.mirror import LACKS_TYPE
from views.maintain.proofs.number_forms import FIELD, ROUNDED

_BY_CUSTOMER = "from orders where customer_id is not null group by customer_id"


@pytest.mark.parametrize(
    ("sql", "key", "reason"),
    [
        ("select id, random() as r from orders", "id", "line 1, column 12: random(): it is vol"),
        ("select status, note from orders", "status, note", "is not unique in the view"),
        ("select status from orders", "", "the view has no key, so its rows"),
        ("select id from orders limit 5", "id", "LIMIT without ORDER BY takes any rows"),
        ("select id from orders order by total limit 5", "id", "an order that leaves ties"),
        (
            "select id, row_number() over (partition by customer_id order by total) n from orders",
            "id",
            "its order leaves ties",
        ),
        ("select id, unnest(tags), generate_series(1,2) from orders", "id", "it gives rows"),
        ("select id, helper(id) from orders", "id", "is no function of PostgreSQL"),
        ("select id as ctid from orders", "ctid", "no table of PostgreSQL can have a column"),
        ("select id as xmin from orders", "xmin", "Rename it in the view"),
        (
            "select extra as k, count(*) from orders group by extra",
            "k",
            "equal values can have different text",
        ),
        (f"select customer_id, sum(total::float8) {_BY_CUSTOMER}", "customer_id", "floats add up"),
        (
            "select id from orders where placed::date = current_date",
            "id",
            "the time zone of the session",
        ),
        ("select id from orders for update", "id", "row locks have no place"),
        ("select id from orders tablesample bernoulli (10)", "id", "other rows each time"),
        ("select ctid, id from orders", "id", "a system column"),
        ("select id from orders where id = $1", "id", "a view has no parameters"),
        ("with x as (delete from orders returning id) select id from x", "id", "only reads"),
        ("delete from orders", "id", "is not a SELECT"),
        ("select id from orders; select 1", "id", "holds 2 statements"),
        ("select idd from orders", "idd", "no table here has a column 'idd'"),
        ("select id from nowhere", "id", "no such table"),
        ("select o.id from orders o, orders o", "id", "two tables are called 'o'"),
        ("select customer_id from orders group by 1", "customer_id", "can be NULL"),
        ("select any_value(id) as id from orders", "id", "it may give any of the values"),
        ("select id, id from orders", "id", "two columns are called 'id'"),
        (
            "select o.id from orders o join lines l on l.order_id = o.id",
            "id",
            "several rows of public.lines l, which l.order_id, l.no distinguishes",
        ),
        (
            "select id from orders union all select id from payments",
            "id",
            "which side of UNION a row is of",
        ),
    ],
)
def test_a_view_is_refused_with_its_reason(sql: str, key: str, reason: str) -> None:
    with pytest.raises(ViewError, match=r"views\.v") as caught:
        plan_view("v", sql, key.split(", ") if key else (), TABLES)
    assert reason in str(caught.value)


WHOLE = "select o.id, row_to_json(s) as s from orders o left join (select * from {}) s using (id)"


def test_a_whole_row_is_computed_with_all_its_columns() -> None:
    assert plan_view("v", WHOLE.format("orders"), ("id",), TABLES).key == ("id",)
    orders = TABLES["public.orders"]
    columns = tuple(
        replace(one, fault="nobody knows its type") if one.name == "note" else one
        for one in orders.columns
    )
    tables = {**TABLES, "public.orders": replace(orders, columns=columns)}
    with pytest.raises(ViewError, match="note cannot be computed with: nobody knows its type"):
        plan_view("v", WHOLE.format("orders"), ("id",), tables)


def test_a_column_that_is_only_shown_is_selected_outside_of_groups_as_the_hint_says() -> None:
    orders = TABLES["public.orders"]
    columns = tuple(
        replace(one, fault=LACKS_TYPE) if one.name == "note" else one for one in orders.columns
    )
    tables = {**TABLES, "public.orders": replace(orders, columns=columns)}
    joined = "from orders o join lines l on l.order_id = o.id group by o.id"
    outside = "Group in a subquery (in the SELECT list or LATERAL) and select it outside"
    for sql, way in (
        (f"select o.id, o.note, count(*) as n {joined}", outside),
        (f"select o.id, o.note::text as note, count(*) as n {joined}", outside),
        ("select distinct o.id, o.note from orders o", outside),
        ("select o.id, o.note::text as note from orders o", "Select it as it is"),
    ):
        with pytest.raises(ViewError, match="the state database does not have its type") as caught:
            plan_view("v", sql, ("id",), tables)
        assert caught.value.hint.startswith(way)
    counted = "(select count(*) as n from lines l where l.order_id = o.id)"
    for sql in (
        f"select o.id, o.note, {counted} as n from orders o",
        f"select o.id, o.note, c.n from orders o cross join lateral {counted} c",
    ):
        assert plan_view("v", sql, ("id",), tables).key == ("id",)


def test_functions_of_any_type_are_taken() -> None:
    """Those of arrays, which operators stand for, too."""
    made = "array_cat(array_prepend(note, tags), array_append(tags, note))"
    plan = plan_view(
        "v", f"select id, id as seq_no, {made} as all_tags from orders", ["id"], TABLES
    )
    assert plan.mode == "keys"
    not_key = plan_view("v", "select id, note as digest from orders", ["id"], TABLES)
    assert not_key.columns == ("id", "digest")


def test_a_function_that_was_brought_is_taken() -> None:
    plan = plan_view("v", "select id, helper(id) as h from orders", ["id"], TABLES,
                     {"helper": "immutable"})  # fmt: skip
    assert plan.mode == "keys"


def _codes(kind: str, one_text: bool) -> dict[str, MirrorTable]:
    columns = (MirrorColumn("id", "integer", False), MirrorColumn("n", "integer", False),
               MirrorColumn("code", kind, True, one_text))  # fmt: skip
    return {"public.t": MirrorTable("public", "t", columns, ("id",))}


@pytest.mark.parametrize("kind", ["text", "character varying(9)", "character(9)", "citext"])
@pytest.mark.parametrize(
    "shown",
    [
        "min(code)",
        "max(lower(code))",
        "max(code) filter (where id > 1)",
        "max(case when n > 1 then 'z' else code end)",
        "max(cast(code as varchar(5)))",
        "max(cast(code as char(5)))",
        "max(case when code collate \"C\" > 'a' then code end)",
    ],
)
def test_of_equal_texts_that_differ_none_is_the_largest(kind: str, shown: str) -> None:
    """Under a collation that takes them for equal; which one comes out is by the order of rows."""
    sql = f"select n, {shown} as c from t group by n"
    plan_view("v", sql, ["n"], _codes(kind, one_text=True))
    with pytest.raises(ViewError, match="different texts are equal in its column") as told:
        plan_view("v", sql, ["n"], _codes(kind, one_text=False))
    assert 'COLLATE "C"' in told.value.hint
    plan_view("v", sql.replace("code", 'code::text collate "C"'), ["n"], _codes(kind, False))


@pytest.mark.parametrize("kind", ["text", "citext"])
@pytest.mark.parametrize(
    "shown",
    [
        "max(case when code = 'a' then id end)",
        "max(case code when 'a' then 'yes' else 'no' end)",
        "min(id * case when code in ('a', 'b') then 1 else 2 end)",
        "max((code = 'a')::int)",
        "max(length(code))",
        "max(code::int)",
    ],
)
def test_what_equal_texts_only_choose_or_count_has_one_largest_value(kind: str, shown: str) -> None:
    plan_view("v", f"select n, {shown} as c from t group by n", ["n"], _codes(kind, False))


def test_a_list_of_texts_that_are_equal_is_ordered_by_the_keys_of_its_rows() -> None:
    sql = "select n, string_agg(code, ',' order by code) as c from t group by n"
    for one_text, order in ((True, "code"), (False, "id")):
        plan = plan_view("v", sql, ["n"], _codes("text", one_text))
        whole = plan.whole(lambda label: label)
        assert whole.partition("ORDER BY")[2].partition(")")[0].rstrip('"').endswith(order), whole


@pytest.mark.parametrize(
    ("key", "form"),
    [
        ("extract(year from placed)", FIELD),
        ("date_part('hour', placed)", FIELD),
        ("floor(total)", ROUNDED),
        ("(round(total, 2))", ROUNDED),
        ("round(total, length(note))", ""),
        ("coalesce(total, 0)", ""),
        ("total / 3", ""),
    ],
)
def test_of_some_numbers_it_is_known_how_they_are_written(key: str, form: str) -> None:
    group = f"select {key} as k, count(*) as n from orders where placed > now() and {key} > 0"
    for sql in (
        f"{group} group by 1",
        f"select k, n from ({group} group by 1) q",
        f"with q as ({group} group by 1) select k, n from q",
    ):
        assert plan_view("v", sql, ["k"], TABLES).number_forms == {"k": form}


def test_two_numbers_that_are_each_written_in_one_way_are_written_in_two() -> None:
    sql = (
        "select floor(total) as k from orders where floor(total) > 0 union "
        "select round(total, 2) from orders where round(total, 2) > 0"
    )
    assert plan_view("v", sql, ["k"], TABLES).number_forms == {"k": ""}


@pytest.mark.parametrize(
    "sql", ["select id, span from t", "select * from t", "select id from t where span > '1 h'"]
)
def test_a_column_that_events_do_not_have_exactly_is_not_read(sql: str) -> None:
    columns = MirrorColumn("id", "bigint"), MirrorColumn("span", "interval", lost="months are lost")
    table = MirrorTable("public", "t", columns, ("id",))
    with pytest.raises(ViewError, match=r"reads span of public\.t, .* exactly: months are lost"):
        plan_view("v", sql, ["id"], {"public.t": table})
    plan_view("v", "select id from t", ["id"], {"public.t": table})
