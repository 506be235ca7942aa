"""Which keys a change touches, and what is made anew."""

from __future__ import annotations

from tests.support.views.shop import TABLES
from views.parse.definition import parse_view
from views.spark.dialects import POSTGRES
from views.spark.plan import KeyQuery, key_queries, recomputation, whole
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableColumn, TableVersion
from views.types import FLOAT8, INT4


def view(sql: str, *key: str) -> MaintainedView:
    return resolve_maintained(parse_view("v", "store", key or ("id",), sql), TABLES)


def queries(sql: str, *key: str) -> dict[str, KeyQuery]:
    return {query.occurrence: query for query in key_queries(view(sql, *key))}


def text(query: KeyQuery) -> str:
    return query.sql({name: f"the_{name}" for name in query.reads}, "changed", POSTGRES)


ORPHANS = (
    "select o.id from orders o left join customers c on c.id = o.customer_id where c.id is null"
)


def test_the_changed_rows_alone_have_a_key_that_is_their_own() -> None:
    found = queries(ORPHANS)["o"]
    assert (found.reads, found.columns) == ((), ("id",))
    assert text(found) == (
        'SELECT DISTINCT "o"."id" AS "id"\nFROM changed AS "o"\nWHERE ("o"."id" IS NOT NULL)'
    )


def test_a_left_join_is_inner_for_its_own_changes_and_where_is_dropped() -> None:
    assert text(queries(ORPHANS)["c"]) == (
        'SELECT DISTINCT "o"."id" AS "id"\nFROM the_o AS "o"\n'
        'JOIN changed AS "c" ON ("c"."id" = "o"."customer_id")\nWHERE ("o"."id" IS NOT NULL)'
    )


def test_conditions_on_rows_that_are_always_there_stay() -> None:
    sql = ORPHANS + " and o.paid and coalesce(c.name, o.note) = 'x'"
    assert text(queries(sql)["c"]).endswith('WHERE ("o"."id" IS NOT NULL) AND ("o"."paid")')


def test_a_key_that_equals_a_changed_column_is_read_from_the_changed_rows() -> None:
    sql = (
        "select o.id, count(l.no) as n from orders o left join lines l on l.order_id = o.id "
        "join customers c on c.id = o.customer_id group by o.id"
    )
    assert text(queries(sql)["l"]) == (
        'SELECT DISTINCT "l"."order_id" AS "id"\nFROM changed AS "l"\n'
        'WHERE ("l"."order_id" IS NOT NULL)'
    )


def test_a_key_of_another_type_is_not_read_from_the_changed_rows() -> None:
    found = queries("select o.id from orders o left join customers c on c.id = o.big")["c"]
    assert (found.reads, found.columns) == (("o",), None)


def test_a_key_that_is_more_than_columns_of_the_changed_rows_is_asked_for() -> None:
    computed = queries("select coalesce(o.big, 0) as id, count(*) as n from orders o group by 1")
    paid = "select o.id, c.name from orders o join customers c on c.id = o.customer_id where o.paid"
    assert computed["o"].columns is queries(paid)["o"].columns is None


def test_floats_that_are_equal_and_not_the_same_are_left_to_the_query() -> None:
    kinds = {"id": FLOAT8, "n": INT4}
    columns = tuple(TableColumn(name, kind, False) for name, kind in kinds.items())
    table = TableVersion("f" * 16, "public", "marks", columns, ("id",))
    sql = "select m.id, sum(m.n) as n from marks m group by m.id"
    kept = resolve_maintained(parse_view("v", "store", ("id",), sql), {table.name: table})
    assert [(query.reads, query.columns) for query in key_queries(kept)] == [((), None)]


COUNTRIES = (
    "select coalesce(c.region, 'none') as region, count(*) as n "
    "from orders o left join customers c on c.id = o.customer_id group by 1"
)


def test_a_key_that_differs_without_a_match_is_looked_up_beside_the_changed_rows() -> None:
    found = queries(COUNTRIES, "region")
    assert not found["o"].beside
    assert found["c"].beside
    assert found["c"].reads == ("o", "c")
    assert text(found["c"]) == (
        """SELECT DISTINCT COALESCE("c"."region", 'none') AS "region"\n"""
        'FROM the_o AS "o"\n'
        'JOIN changed AS "__changed" ON ("__changed"."id" = "o"."customer_id")\n'
        'LEFT JOIN the_c AS "c" ON ("c"."id" = "o"."customer_id")\n'
        """WHERE (COALESCE("c"."region", 'none') IS NOT NULL)"""
    )


def test_what_no_key_can_be_read_without_is_not_looked_up_beside() -> None:
    sql = (
        "select o.id, l.no from orders o left join lines l on l.order_id = o.id "
        "where l.no is not null"
    )
    assert not queries(sql, "id", "no")["l"].beside


def test_each_occurrence_of_a_table_has_a_query_of_its_own() -> None:
    sql = "select c.id, p.name from customers c left join customers p on p.id = c.parent_id"
    found = queries(sql)
    assert [(q.occurrence, q.table, q.reads) for q in found.values()] == [
        ("c", "public.customers", ()),
        ("p", "public.customers", ("c",)),
    ]


COUNTED = (
    "select o.id, count(l.no) as n from orders o "
    "left join lines l on l.order_id = o.id and {} group by o.id"
)


def test_what_on_asks_of_changed_rows_alone_stays_where_the_join_is_left_out() -> None:
    assert text(queries(COUNTED.format("l.qty > 3 and o.paid"))["l"]) == (
        'SELECT DISTINCT "l"."order_id" AS "id"\nFROM changed AS "l"\n'
        'WHERE ("l"."order_id" IS NOT NULL) AND ("l"."qty" > 3)'
    )


def test_spark_is_told_the_keys_as_a_semi_join() -> None:
    sql = (
        "select o.id, o.total, count(l.no) as n from orders o join lines l on l.order_id = o.id "
        "where o.paid group by o.id having count(*) > 1"
    )
    made = recomputation(view(sql), {"o": "m1", "l": "m2"}, "touched")
    assert made == (
        "SELECT `o`.`id` AS `id`, `o`.`total` AS `total`, count(`l`.`no`) AS `n`\n"
        "FROM m1 AS `o`\nJOIN m2 AS `l` ON ((`l`.`order_id` = `o`.`id`))\n"
        "LEFT SEMI JOIN touched AS `__keys` ON `o`.`id` = `__keys`.`id`\n"
        "WHERE (`o`.`paid`)\nGROUP BY `o`.`id`, `o`.`total`\n"
        "HAVING (count(*) > CAST(CAST(1 AS int) AS bigint))"
    )
    assert "SEMI" not in whole(view(sql), {"o": "m1", "l": "m2"})
