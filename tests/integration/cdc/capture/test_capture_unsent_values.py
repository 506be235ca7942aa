"""Values that the log does not hold: unchanged TOAST that no consumer has under the row's key."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack import servers
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order, fold
from tests.support.waiting import wait_until

PLACEHOLDER = "__debezium_unavailable_value"


def big(seed: int) -> str:
    """Too long and too random to be kept in the row."""
    return "".join(random.Random(seed).choices("abcdefghij", k=20_000))


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute("create table item (id int primary key, name text, body text)")
    return deployment


def test_a_row_that_enters_the_publications_filter_has_all_its_values(shop: Deployment) -> None:
    shop.execute(
        f"create publication headwater_{shop.name} for table only item where (id >= 100)"
        " with (publish_via_partition_root = true)",
        f"insert into item values (1, 'outside', '{big(1)}')",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("update item set id = 101 where id = 1")
        shop.captured(capture)
    assert fold(shop.events("item"))['{"id": 101}']["body"] == big(1)


DDL = {
    "dropped": "alter table dropped drop column name",
    "renamed": "alter table renamed rename column body to text",
    "keyed": "alter table keyed rename id to no",
    "swapped": """begin; alter table swapped rename name to tmp;
           alter table swapped rename body to name; alter table swapped rename tmp to body;
           alter table swapped rename id to "n%o"; commit""",
    "replaced": """alter table replaced rename body to text;
           alter table replaced add body text default 'another'""",
    "retyped": "alter table retyped alter column body type bytea using body::bytea",
    "moved": "alter table moved rename to article",
    "gone": "drop table gone",
}
"""By the table that it alters."""


def test_a_key_change_before_a_ddl_does_not_stop_the_stream(shop: Deployment) -> None:
    for table in DDL:
        shop.execute(
            f"create table {table} (like item including all)",
            f"insert into {table} values (1, 'a', '{big(1)}')",
        )
    shop.execute("create table other (id int primary key)")
    shop.init()
    for number, (table, ddl) in enumerate(DDL.items()):
        shop.execute(f"update {table} set id = 2", ddl, f"insert into other values ({number})")
    with shop.running("capture") as capture:
        shop.captured(capture)
    for table in DDL:
        moved = fold(shop.events(table))['{"id": 2}']
        lost = table in ("retyped", "gone")
        assert moved["body"] == (PLACEHOLDER if lost else big(1)), table
    assert {row["id"] for row in fold(shop.events("other")).values()} == {*range(len(DDL))}


def test_a_table_that_was_read_is_read_under_its_new_names(shop: Deployment) -> None:
    swap = """begin; alter table item rename name to tmp; alter table item rename body to name;
              alter table item rename tmp to body; commit"""
    shop.execute(f"insert into item values (1, '{big(1)}', '{big(2)}')")
    shop.init()
    with shop.running("capture") as capture:
        for number, ddl in ((2, "select 1"), (3, swap), (4, "alter table item rename id to no")):
            shop.execute(ddl, f"update item set {'no' if number == 4 else 'id'} = {number}")
            shop.captured(capture)
    made = [e.value for e in shop.events("item") if e.value and e.value["op"] == "c"]
    made.sort(key=lambda value: value["source"]["commit_lsn"])
    bodies = [(value["after"]["name"], value["after"]["body"]) for value in made]
    assert bodies == [(big(1), big(2)), (big(2), big(1)), (big(2), big(1))]


def test_many_key_changes_do_not_keep_capture_from_answering_the_server(shop: Deployment) -> None:
    shop.execute(
        "alter table item alter column body set storage external",
        "insert into item select i, 'x', repeat('x', 4000) from generate_series(1, 3000) i",
    )
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        conn.execute(f"alter database {conn.info.dbname} set wal_sender_timeout = '4s'")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("update item set id = id + 10000")
        last = '{"id": 13000}'
        wait_until(lambda: last in fold(shop.events("item")), "the last row")
        shop.captured(capture)
    assert "reconnecting" not in shop.log("capture")
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert all(row["body"] == "x" * 4000 for row in fold(events).values())


@pytest.mark.parametrize("key", ["label", pytest.param("tag", marks=pytest.mark.exhaustive)])
def test_a_row_is_found_by_a_key_of_an_extensions_type(shop: Deployment, key: str) -> None:
    """pgvector's type, from a schema that capture's search path does not name."""
    shop.execute(
        "create schema ext",
        "create extension vector schema ext",
        "create domain label as ext.vector(2)",
        f"create table tagged (tag {'ext.vector(2)' if key == 'tag' else 'label'} primary key,"
        " body text)",
        "alter table tagged alter column body set storage external",
        f"insert into tagged values ('[1,2]', '{big(3)}')",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("update tagged set tag = '[3,4]'")
        shop.captured(capture)
    moved = [e for e in shop.events("tagged") if e.value and e.value["op"] == "c"]
    assert [e.value["after"]["body"] for e in moved if e.value] == [big(3)]


def test_text_like_the_placeholder_is_told_from_a_value_left_alone(shop: Deployment) -> None:
    shop.execute(f"insert into item values (1, 'a', '{big(4)}'), (2, 'a', '{big(5)}')")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "update item set name = 'b' where id = 1",
            f"update item set name = '{PLACEHOLDER}' where id = 1",
            f"update item set body = '{PLACEHOLDER}' where id = 2",
            "update item set name = 'c' where id = 2",
        )
        shop.captured(capture)
    updates = [e.value for e in shop.events("item") if e.value and e.value["op"] == "u"]
    updates.sort(key=lambda value: value["source"]["commit_lsn"])
    assert [value["source"].get("unchanged") for value in updates] == [["body"], ["body"], [], []]
    assert [value["after"]["body"] for value in updates] == [PLACEHOLDER] * 4


@pytest.fixture
def lonely(tmp_path: Path, kafka: str, source_name: str) -> Iterator[Deployment]:
    """A source whose commits wait for a standby that does not exist, if they ask for one."""
    home = tmp_path / "lonely"
    settings = {
        "fsync": "off",
        "synchronous_standby_names": "nobody",
        "synchronous_commit": "local",
    }
    dsn = servers.start(home, ["postgres"], {"postgres": settings}).postgres_dsn
    shop = Deployment(tmp_path, source_name, dsn, kafka)
    shop.execute("create table item (id int primary key, name text, body text)")
    shop.execute(f"insert into item values (1, 'a', '{big(1)}')")
    yield shop
    servers.purge(home)


def test_a_row_is_looked_up_when_its_transaction_is_visible(lonely: Deployment) -> None:
    """A commit is decoded before any session sees it: the row's new key would not be found."""
    shop = lonely
    shop.init()

    def move() -> None:
        with psycopg.connect(shop.dsn) as conn:
            conn.execute("set synchronous_commit = on")
            conn.execute("update item set id = 2")

    moving = threading.Thread(target=move)
    with shop.running("capture") as capture, psycopg.connect(shop.dsn, autocommit=True) as conn:
        shop.captured(capture)
        moving.start()

        def activity(condition: str) -> bool:
            query = f"select exists (select from pg_stat_activity where {condition})"
            return conn.execute(query.encode()).fetchone() == (True,)

        wait_until(lambda: activity("wait_event = 'SyncRep'"), "the commit to wait")
        asks = "query like '%pg_visible_in_snapshot%' and pid <> pg_backend_pid()"
        wait_until(lambda: activity(asks), "capture to ask for the transaction")
        waiting = "from pg_stat_activity where wait_event = 'SyncRep'"
        conn.execute(f"select pg_cancel_backend(pid) {waiting}")
        moving.join(60)
        shop.captured(capture)
    events = shop.events("item")
    (created,) = [event.value for event in events if event.value and event.value["op"] == "c"]
    assert created["after"] == {"id": 2, "name": "a", "body": big(1)}
    assert_exactly_once_in_order(events)
