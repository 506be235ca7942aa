"""``<source>.transaction`` on real servers: two records for each transaction, through kill -9."""

from __future__ import annotations

import random
from collections import defaultdict

import psycopg
import pytest

from cdc.topics import transaction_topic
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute("create table item (id int primary key, name text)")
    deployment.execute("create table other (id int primary key, name text)")
    return deployment


@pytest.mark.parametrize("progress_ms", [200, 600_000])
def test_every_transaction_has_its_begin_end_and_counts_through_kills(
    shop: Deployment, progress_ms: int
) -> None:
    rng = random.Random(progress_ms)
    settings = "[capture]\ntransaction_metadata = true\n"
    shop.extra = f"{settings}progress_ms = {progress_ms}"
    shop.init()
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        for turn in range(3):
            with shop.running("capture") as capture:
                for i in range(rng.randint(20, 60)):
                    transaction(conn, rng, turn * 1000 + i)
                if turn == 0 and progress_ms < 1000:
                    shop.captured(capture)
                capture.kill()
    shop.extra = settings
    with shop.running("capture") as capture:
        shop.captured(capture)
    records = [event.value for event in shop.topic(transaction_topic(shop.name)) if event.value]
    assert [r["status"] for r in records] == ["BEGIN", "END"] * (len(records) // 2)
    ends = {record["id"]: record for record in records[1::2]}
    assert [record["id"] for record in records[::2]] == list(ends)
    orders: dict[str, list[int]] = defaultdict(list)
    by_table: dict[tuple[str, str], int] = defaultdict(int)
    for table in ("item", "other"):
        events = shop.events(table)
        assert_exactly_once_in_order(events)
        for value in {event.position: event.value for event in events if event.value}.values():
            block = value["transaction"]
            orders[block["id"]].append(block["total_order"])
            by_table[block["id"], f"public.{table}"] += 1
    assert orders.keys() == ends.keys()
    for id_, order in orders.items():
        assert sorted(order) == list(range(1, ends[id_]["event_count"] + 1))
        for collection in ends[id_]["data_collections"]:
            assert by_table[id_, collection["data_collection"]] == collection["event_count"]


def transaction(conn: psycopg.Connection, rng: random.Random, number: int) -> None:
    with conn.transaction():
        for step in range(rng.choice((1, 2, 200))):
            table = rng.choice(("item", "other"))
            key = number * 1000 + step
            conn.execute(f"insert into {table} values (%s, 'a')".encode(), [key])
            if rng.random() < 0.2:
                conn.execute(f"update {table} set id = -id where id = %s".encode(), [key])
        if rng.random() < 0.1:
            conn.execute("truncate item")


def test_without_the_setting_there_is_no_such_topic_and_no_block(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 'a')")
        shop.captured(capture)
    (event,) = shop.events("item")
    assert event.value is not None
    assert event.value["transaction"] is None
