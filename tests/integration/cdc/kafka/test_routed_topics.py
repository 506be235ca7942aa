"""Routes on real servers: a topic of several tables and a renamed one with a view over it hold each
change once, in order, through ``kill -9``; a route that changes is refused."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender

SHARDS, SHARED, RENAMED = (1, 2, 3), "things", "people"
VIEW = "select id, name from person"
TABLES = (
    *(f"create table item_{n} (shop int, id int, name text, primary key (shop, id))"
      for n in SHARDS),
    "create table person (id int primary key, name text)",
    *(f"insert into item_{n} select i % 7, i, 'first' from generate_series(1, 200) i"
      for n in SHARDS),
    "insert into person select i, 'first' from generate_series(1, 200) i",
)  # fmt: skip


def routes(name: str, renamed: str = RENAMED) -> str:
    return f"""
[[source.routes]]
tables = ["public.item_*"]
topic = "{name}.{SHARED}"
partition_by = ["shop"]
[[source.routes]]
match = 'public\\.(person)'
topic = "{renamed}.{{source}}.{{1}}"
"""


@pytest.fixture
def shop(deployment: Deployment, lender: Lender, redis_server: str) -> Deployment:
    deployment.jvm = lender
    deployment.settings = routes(deployment.name)
    deployment.extra = (
        f'partitions = 3\n[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[apply]\nstate = "{deployment.home / "state"}"\n'
        f'[views.{deployment.name}]\nstore = "cache"\nkey = ["id"]\nsql = "{VIEW}"\n'
    )
    deployment.execute(*TABLES)
    deployment.init()
    return deployment


def changes(turn: int) -> list[str]:
    found = []
    for n in SHARDS:
        found += [
            f"insert into item_{n} select i % 5, {turn + 1} * 1000 + i, 'x'"
            " from generate_series(1, 400) i",
            f"update item_{n} set name = name || '{turn}' where id % 7 = {turn}",
            f"delete from item_{n} where id % 11 = {turn}",
            f"update item_{n} set shop = shop + 100 where id % 13 = {turn}",
        ]
    return [
        *found,
        f"begin; update item_1 set name = 'both' where id = {50 + turn};"
        f" update item_2 set name = 'both' where id = {50 + turn}; commit",
        f"update person set name = name || '{turn}' where id % 3 = {turn}",
        f"delete from person where id % 17 = {turn}",
    ]


def test_topics_of_routes_hold_each_change_once_in_order_through_kills(shop: Deployment) -> None:
    for turn in range(3):
        with shop.running("capture") as capture:
            shop.execute(*changes(turn))
            if turn < 2:
                capture.kill()
            else:
                shop.captured(capture)
    rows, partition_of = dict[str, dict[str, Any]](), dict[int, set[int]]()
    newest = dict[int, tuple[int, int]]()
    for one in shop.topic(f"{shop.name}.{SHARED}"):
        key = one.key or {}
        assert list(key) == ["shop", "id", "__table"]
        partition_of.setdefault(key["shop"], set()).add(one.partition)
        if one.value is None:
            rows.pop(json.dumps(key), None)
            continue
        source = one.value["source"]
        assert key["__table"] == f"{shop.name}.public.{source['table']}"
        rows[json.dumps(key)] = one.value["after"]
        if source["snapshot"] == "false":
            at = source["commit_lsn"], source["ordinal"]
            assert newest.get(one.partition, (0, 0)) < at
            newest[one.partition] = at
    assert all(len(found) == 1 for found in partition_of.values())
    expected = []
    with psycopg.connect(shop.dsn) as conn:
        for n in SHARDS:
            expected += conn.execute(f"select shop, id, name from item_{n}".encode()).fetchall()
    held = [(row["shop"], row["id"], row["name"]) for row in rows.values() if row]
    assert sorted(held) == sorted(expected)
    view_over_the_renamed_topic_is_equal(shop)
    a_table_that_joins_truncates_nothing_and_one_that_comes_back_does(shop)
    what_cannot_be_is_refused(shop)


def a_table_that_joins_truncates_nothing_and_one_that_comes_back_does(shop: Deployment) -> None:
    """A sink that truncates its table would lose rows of the others."""
    shop.execute(
        "create table item_4 (shop int, id int, name text, primary key (shop, id))",
        "insert into item_4 values (1, 1, 'x')",
    )
    done(shop, "table", "add", "public.item_4")
    assert truncated(shop) == []
    with shop.running("capture") as capture:
        shop.captured(capture)
    shop.settings = f'exclude = ["public.item_4"]\n{routes(shop.name)}'
    done(shop, "table", "remove", "public.item_4", "--yes")
    shop.execute("delete from item_4")
    with shop.running("capture") as capture:
        shop.captured(capture)
    shop.settings = routes(shop.name)
    done(shop, "table", "add", "public.item_4")
    assert truncated(shop) == ["item_4"] * 3, "in each partition"


def truncated(shop: Deployment) -> list[str]:
    events = [one.value for one in shop.topic(f"{shop.name}.{SHARED}") if one.value is not None]
    return [one["source"]["table"] for one in events if one["op"] == "t"]


def view_over_the_renamed_topic_is_equal(shop: Deployment) -> None:
    with shop.running("capture") as capture, shop.running("apply", "--json"):
        shop.captured(capture)
        done(shop, "wait", shop.name, "--timeout", "300")
        shop.execute(
            "update person set name = 'last' where id < 9", "delete from person where id = 9"
        )
        shop.captured(capture)
        done(shop, "wait", shop.name, "--timeout", "120")
        report = json.loads(done(shop, "verify", shop.name, "--json"))
        assert report["equal"], report
        assert report["source_rows"] > 100
        traced = json.loads(done(shop, "trace", "item_1", "shop=100", "id=14", "--json"))
        assert [one["op"] for one in traced["changes"]][-1] == "insert", traced


def what_cannot_be_is_refused(shop: Deployment) -> None:
    shop.settings = routes(shop.name, "elsewhere")
    refused = " ".join(shop.run("capture").stderr.split())
    assert f"public.person is in topic {RENAMED}.{shop.name}.person, and source.routes" in refused
    assert "headwater init --again" in refused
    shop.settings = routes(shop.name).replace('["shop"]', '["name"]')
    shop.extra += f'[views.{shop.name}_items]\nstore = "cache"\nkey = ["shop", "id"]\n'
    shop.extra += 'sql = "select shop, id, name from item_1"\n'
    _, findings = shop.check()
    told = {one["check"]: one["message"] for one in findings["error"]}
    assert "partition_by of source.routes names name" in told["routes"]
    assert "which may hold several tables" in told[f"view {shop.name}_items"]
    applied = " ".join(shop.run("apply", "--available-now").stderr.split())
    assert "which may hold several tables" in applied
