"""The essentials of capture on PostgreSQL 16; the other tests run on 18."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.errors import StackError
from cdc.topics import message_topic
from stack import servers
from stack.postgres import MAJOR
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order, fold
from tests.support.waiting import wait_until

BIG = "".join(random.Random(16).choices("abcdefghij", k=40_000))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "stack16"
    servers.purge(tmp_path / "stack16")


@pytest.fixture
def shop(home: Path, tmp_path: Path, kafka: str, source_name: str) -> Deployment:
    settings = {"fsync": "off", MAJOR: "16"}
    dsn = servers.start(home, ["postgres"], {"postgres": settings}).postgres_dsn
    deployment = Deployment(tmp_path, source_name, dsn, kafka)
    deployment.extra = "[capture]\nheartbeat_s = 0.5"
    deployment.execute(
        "create table item (id int primary key, name text, body text)",
        "create table part (id int primary key, name text) partition by range (id)",
        "create table part_a partition of part for values from (0) to (100)",
        "create table part_b partition of part for values from (100) to (200)",
        "create table made (id int primary key, a int, b int generated always as (a * 2) stored)",
        "create table seen (id int primary key, name text, secret text)",
        f"create publication headwater_{source_name} for table only item, only part, only made,"
        " only seen (id, name) where (id > 0) with (publish_via_partition_root = true)",
        "insert into item values (1, 'snapshot', null)",
        "insert into seen values (-1, 'hidden', 'x'), (1, 'shown', 'x')",
    )
    return deployment


def ops(shop: Deployment, table: str) -> list[str]:
    return [event.value["op"] for event in shop.events(table) if event.value]


def rows(shop: Deployment, table: str) -> list[dict[str, Any]]:
    return sorted(fold(shop.events(table)).values(), key=lambda row: row["id"])


def test_capture_on_postgresql_16(shop: Deployment) -> None:
    with psycopg.connect(shop.dsn) as conn:
        assert conn.info.server_version // 10_000 == 16
    shop.init()
    assert ops(shop, "item") == ["r"]
    assert rows(shop, "seen") == [{"id": 1, "name": "shown"}]
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into item values (2, 'b', '{BIG}'), (3, 'c', null)",
            "update item set name = 'toast' where id = 2",
            "update item set id = 4 where id = 2",
            "delete from item where id = 3",
            "insert into part values (1, 'a'), (101, 'b')",
            "update part set id = 102 where id = 1",
            "insert into made (id, a) values (1, 21)",
            "insert into seen values (-2, 'hidden', 'x'), (2, 'shown', 'x')",
            "update seen set id = 3 where id = -1",
            "select pg_logical_emit_message(true, 'audit', 'in')",
            "select pg_logical_emit_message(false, 'audit', 'out')",
        )
        shop.captured(capture)
        shop.execute("insert into item select i, 'x', null from generate_series(10, 3000) i")
        wait_until(lambda: shop.records("item") > 100, "some of them in Kafka")
        capture.kill()
    with shop.running("capture") as capture:
        shop.captured(capture)
        check_rows(shop)
        shop.execute("truncate item, part")
        shop.captured(capture)
        assert shop.run("health").returncode == 0
    for table in ("item", "part", "made", "seen"):
        assert_exactly_once_in_order(shop.events(table))
    assert rows(shop, "item") == rows(shop, "part") == []
    assert ops(shop, "item").count("t") == 2
    messages = shop.topic(message_topic(shop.name))
    assert [event.key for event in messages] == [{"prefix": "audit"}] * 2


def check_rows(shop: Deployment) -> None:
    items = {row["id"]: row for row in rows(shop, "item")}
    assert set(items) == {1, 4, *range(10, 3001)}
    assert items[4] == {"id": 4, "name": "toast", "body": BIG}
    updated = [e.value for e in shop.events("item") if e.value and e.value["op"] == "u"]
    assert updated[0]["after"]["body"] == "__debezium_unavailable_value"
    assert [row["id"] for row in rows(shop, "part")] == [101, 102]
    assert rows(shop, "made") == [{"id": 1, "a": 21}]
    assert rows(shop, "seen") == [{"id": n, "name": "shown"} for n in (1, 2)] + [
        {"id": 3, "name": "hidden"}
    ]


def test_failover_on_16_and_data_of_another_version_are_refused(
    shop: Deployment, home: Path
) -> None:
    shop.settings = "failover = true\n"
    refused = shop.run("init")
    assert refused.returncode == 1
    assert "Set source.failover = false" in refused.stderr
    servers.stop(home, ["postgres"])
    with pytest.raises(StackError, match=r"is PostgreSQL 16's, not 18's.*down --purge"):
        servers.start(home, ["postgres"], {"postgres": {MAJOR: "18"}})
    with pytest.raises(StackError, match=r"there is no PostgreSQL 9\.6.*16 and 18"):
        servers.start(home, ["postgres"], {"postgres": {MAJOR: "9.6"}})
    again = servers.start(home, ["postgres"], {"postgres": {}})  # its version is its data's
    with psycopg.connect(again.postgres_dsn) as conn:
        assert conn.info.server_version // 10_000 == 16
