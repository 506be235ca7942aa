"""The key of a view over several tables: proven unique and never NULL, or refused."""

from __future__ import annotations

import pytest

from cdc.errors import ViewError
from tests.support.views.shop import TABLES
from views.parse.definition import parse_view
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import INT4, PgType

_PARCELS = TableVersion(
    *("p" * 16, "public", "parcels"),
    (TableColumn("id", INT4, False), TableColumn("payload", PgType("jsonb"), False)),
    ("id",),
)


def view(sql: str, *key: str) -> MaintainedView:
    return resolve_maintained(
        parse_view("v", "store", key, sql), {**TABLES, _PARCELS.name: _PARCELS}
    )


@pytest.mark.parametrize(
    ("key", "sql"),
    [
        ("id", "select o.id from orders o join customers c on c.id = o.customer_id"),
        ("id", "select o.id from orders o left join customers c on c.id = o.customer_id"),
        (
            "id",
            "select o.id from orders o left join customers c on c.id = o.customer_id "
            "left join regions r on r.code = c.region",
        ),
        ("id", "select l.order_id as id from lines l join orders o on o.id = l.order_id "
               "where l.no = 1"),
        ("id no", "select order_id as id, no from lines join products using (sku)"),
        ("id no", "select o.id, l.no from orders o join lines l on l.order_id = o.id"),
        (
            "id no",
            "select o.id, l.no from orders o left join lines l on l.order_id = o.id "
            "where l.no is not null",
        ),
        (
            "id",
            "select o.id from orders o left join lines l on l.order_id = o.id and l.no = 1",
        ),
        ("a b", "select a.id as a, b.id as b from orders a join orders b on a.day = b.day"),
        ("a", "select a.id as a from customers a join customers b on a.parent_id = b.id"),
        ("region", "select region, count(*) as n from customers where region is not null "
                   "group by region"),
        ("id", "select c.id, r.name, count(*) as n from customers c join regions r "
               "on r.code = c.region group by c.id, r.name"),
        ("id", "select c.id, r.name, count(*) as n from customers c left join regions r "
               "on r.code = c.region group by c.id, r.code"),
        ("day", "select coalesce(day, '2000-01-01') as day, count(*) as n from orders group by 1"),
        ("n", "select coalesce(customer_id, -1) as n, count(*) as total from orders group by 1"),
        ("month", "select to_char(day, 'YYYY-MM') as month, count(*) as n from orders "
                  "where day is not null group by 1"),
        ("big", "select id % 3 as big, count(*) as n from orders group by id % 3"),
        ("kind", "select case when paid then 1 else 2 end as kind, count(*) as n from orders "
                 "group by kind"),
    ],
)  # fmt: skip
def test_a_key_that_equalities_and_keys_settle_is_taken(key: str, sql: str) -> None:
    assert view(sql, *key.split()).key == tuple(key.split())


@pytest.mark.parametrize(
    ("key", "sql", "reason", "hint"),
    [
        (
            "id",
            "select o.id\nfrom orders o\njoin lines l on l.order_id = o.id",
            r"\(id\) is not unique in the view, line 3, column 6: one may match several "
            r"rows of public\.lines l, which l\.no distinguishes",
            "Select l.no and name it in key, or GROUP BY the key",
        ),
        (
            "name",
            "select c.name from orders o join customers c on c.id = o.customer_id",
            r"not unique in the view, .* several rows of public\.orders o, which o\.id",
            "Select o.id",
        ),
        (
            "no",
            "select l.no, l.order_id from lines l left join orders o "
            "on o.id = l.order_id and l.qty > 1",
            r"not unique",
            "Select l.order_id",
        ),
        (
            "id",
            "select o.id from orders o left join customers c on c.parent_id = o.id",
            r"several rows of public\.customers c",
            "Select c.id",
        ),
        (
            "region",
            "select region, name, count(*) as n from customers "
            "where region is not null and name is not null group by 1, 2",
            "may name several groups, line 1, column 16: GROUP BY also has",
            "name it in key",
        ),
        (
            "n",
            "select id, count(*) as n from orders group by id",
            "'n'.* is an aggregate",
            "Use the columns of GROUP BY",
        ),
        (
            "x",
            "select id, count(*) as n from orders group by id",
            "'x' is not a column",
            "Choose from",
        ),
        (
            "id no",
            "select o.id, l.no from orders o left join lines l on l.order_id = o.id",
            "'no', line 1, column 14 can be NULL: l is missing from some rows",
            "Add WHERE l.no IS NOT NULL",
        ),
        (
            "region",
            "select region, count(*) as n from customers group by region",
            "'region', line 1, column 8 can be NULL, and a row without a key cannot be stored",
            "IS NOT NULL, or make it coalesce",
        ),
        (
            "a",
            "select nullif(id, 3) as a, count(*) as n from orders group by 1",
            "can be NULL",
            "IS NOT NULL",
        ),
        (
            "city",
            "select upper(payload ->> 'city') as city, count(*) as n from parcels group by 1",
            "'city', line 1, column 8 can be NULL",
            "or make it coalesce",
        ),
        (
            "n",
            "select array_length(tags, 1) as n, count(*) as c from orders where tags is not null "
            "group by 1",
            "can be NULL",
            "or make it coalesce",
        ),
        (  # of an empty array that is true, also where l is missing
            "id no",
            "select o.id, l.no from orders o left join lines l on l.order_id = o.id "
            "where l.sku <> all (o.tags)",
            "'no', line 1, column 14 can be NULL: l is missing from some rows",
            "Add WHERE l.no IS NOT NULL",
        ),
        (
            "id",
            "select o.id from orders o join lines l on l.order_id = o.id and l.no = any ('{1,2}')",
            r"not unique in the view.* which l\.no",
            "Select l.no",
        ),
        (  # several numbers may be equal as floats
            "id",
            "select o.id from orders o join lines l on l.order_id = o.id "
            "and l.no = date_part('day', o.day)",
            r"not unique in the view.* which l\.no",
            "Select l.no",
        ),
        (
            "id",
            "select o.id from orders o join lines l on l.sku = any (o.tags)",
            "ON has no equality between l",
            "Write ON a.x = b.y",
        ),
        ("id id", "select id, count(*) as n from orders group by id", "named twice", "once"),
        (
            "id",
            "select json_build_object('a', id) as id, id as i from orders join lines on no = id",
            "cannot be looked up",
            "another column",
        ),
    ],
)
def test_a_key_that_rows_may_share_or_lack_is_refused(
    key: str, sql: str, reason: str, hint: str
) -> None:
    with pytest.raises(ViewError, match=reason) as caught:
        view(sql, *key.split())
    assert hint in caught.value.hint


def test_what_a_group_has_of_a_row_is_taken_from_one_also_inside_of_an_array() -> None:
    said = view(
        "select c.id, count(*) as n from customers c join orders o on o.customer_id = c.id "
        "group by c.id having 'a' = any (array[c.name]::text[])",
        "id",
    ).reading(lambda schema, table: f"{schema}.{table}")
    assert '(array_agg("c"."name"))[1]' in said
