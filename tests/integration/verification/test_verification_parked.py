"""Which rows of a view over several tables wait, as its letters and the source tell."""

from __future__ import annotations

from functools import partial
from zlib import crc32

import psycopg
import pytest

from cdc.errors import SourceError
from cdc.lsn import Position
from cdc.topics import table_topic
from jobs.without_mirrors.dead_letters.letter import Letter, Letters, row_letter
from tests.support.views.mirrored_view import CUSTOMERS, ORDERS
from verification.exact_snapshot import source_at_new_lsn
from verification.parked_rows import parked_rows
from verification.values.canonical_form import unpacked
from views.parse.definition import parse_view
from views.spark.view import resolve_maintained

TOPIC_OF = partial(table_topic, "shop")
SQL = """
    select c.id, c.name, count(o.id) as orders, 'a%b' as odd
    from customers c left join orders o on o.customer_id = c.id where c.name <> 'gone' group by c.id
"""


@pytest.fixture
def dsn(database: str) -> str:
    with psycopg.connect(database, autocommit=True) as conn:
        for statement in (
            "create table customers (id int primary key, name text)",
            "create table orders (id int primary key, customer_id int, total int, note text)",
            "create publication p for table customers, orders",
            "insert into customers values (1, 'Ada'), (2, 'Bob'), (3, 'gone')",
            "insert into orders values (10, 1), (11, 1), (12, 2), (13, null)",
        ):
            conn.execute(statement.encode())
    return database


def letter(table: str, key: str) -> Letter:
    value = b"{}"
    offset = crc32(key.encode())
    return Letter(f"shop.public.{table}", 0, offset, key.encode(), value, 2, None, 1, 1, "odd")


def test_rows_are_told_by_the_keys_of_their_tables_and_by_their_own(dsn: str) -> None:
    definition = parse_view("v", "s", ["id"], SQL)
    view = resolve_maintained(definition, {one.name: one for one in (CUSTOMERS, ORDERS)})
    letters = Letters()
    letters.add([letter("orders", '{"id":10}'), letter("orders", '{"id":13}')])
    with source_at_new_lsn(dsn, view, "p", 30, lambda _: None) as source:
        found = parked_rows(view, letters, source, TOPIC_OF)
        assert {unpacked(key) for key in found} == {(1,)}
        letters.add([letter("customers", '{"id":3}'), letter("customers", '{"id":"odd"}')])
        letters.add([letter("customers", "{oops"), letter("orders", "{oops")])
        assert parked_rows(view, letters, source, TOPIC_OF) == found  # a key that is none
        letters = Letters()
        letters.add([letter("customers", '{"id":2}')])
        letters.add([row_letter("v", b'{"id":"7"}', Position(1, 1), 1, 1, "refused")])
        found = parked_rows(view, letters, source, TOPIC_OF)
        assert {unpacked(key) for key in found} == {(2,), (7,)}


def test_a_value_that_the_sql_cannot_take_leads_to_the_letters(dsn: str) -> None:
    definition = parse_view("v", "s", ["id"], "select id, note::int as n from orders")
    view = resolve_maintained(definition, {ORDERS.name: ORDERS})
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("update orders set note = 'abc' where id = 11")
    with (
        source_at_new_lsn(dsn, view, "p", 30, lambda _: None) as source,
        pytest.raises(SourceError, match="data error 22P02") as raised,
    ):
        list(source.rows())
    assert "`headwater dead-letters list v` may name the keys" in raised.value.hint
