"""Capture on real servers: what a commit becomes in Kafka, and what a crash does not change."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from cdc.kafka.broker import Broker
from cdc.topics import message_topic, schemas_topic
from tests.support.commands.deployment import Deployment, Event, assert_exactly_once_in_order, fold
from tests.support.waiting import wait_until


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    deployment.execute(
        "create table item (id int primary key, name text, price numeric(8,2), body text)"
    )
    return deployment


def values(events: list[Event]) -> list[dict[str, Any]]:
    return [event.value for event in events if event.value is not None]


def test_a_change_becomes_an_event_with_its_source(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 'Zwiebel \"ü\"', 2.50, null)")
        shop.captured(capture)
    (event,) = shop.events("item")
    assert event.key == {"id": 1}
    assert event.value is not None
    assert list(event.value) == [
        "before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns",
    ]  # fmt: skip
    assert event.value["op"] == "c"
    assert event.value["before"] is None
    assert event.value["after"] == {
        "id": 1, "name": 'Zwiebel "ü"', "price": "2.50", "body": None,
    }  # fmt: skip
    source = event.value["source"]
    assert source["name"] == shop.name
    assert (source["schema"], source["table"], source["snapshot"]) == ("public", "item", "false")
    assert source["ordinal"] == 1
    assert source["commit_lsn"] > source["lsn"] > 0
    assert source["ts_ms"] <= event.value["ts_ms"] <= event.timestamp_ms
    with Broker(shop.bootstrap) as broker:
        topic = schemas_topic(shop.name)
        schemas = list(broker.read(topic, 0, 0, broker.end_offsets([topic])[topic][0]))
    assert source["schema_id"].encode() in {record.key for record in schemas}


def test_updates_deletes_and_key_changes_become_their_events(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into item values (1, 'a', 1, 'x'), (2, 'b', 2, 'y')",
            "update item set price = 3 where id = 1",
            "update item set id = 7 where id = 1",
            "delete from item where id = 2",
        )
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    of_one = [(e.value or {}).get("op", "tombstone") for e in events if e.key == {"id": 1}]
    assert of_one == ["c", "u", "d", "tombstone"]
    (moved,) = [event for event in events if event.key == {"id": 7}]
    assert moved.value is not None
    assert moved.value["op"] == "c"
    assert moved.value["source"]["ordinal"] == 2
    assert list(fold(events)) == ['{"id": 7}']


def test_unchanged_toast_is_a_placeholder_and_a_moved_row_keeps_its_value(
    shop: Deployment,
) -> None:
    big = "".join(random.Random(1).choices("abcdefghij", k=40_000))
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into item values (1, 'a', 1, '{big}')",
            "update item set name = 'b'",
            "update item set id = 2",
        )
        shop.captured(capture)
    events = shop.events("item")
    updated = next(v for v in values(events) if v["op"] == "u")
    assert updated["after"]["body"] == "__debezium_unavailable_value"
    assert fold(events)['{"id": 2}']["body"] == big


def test_replica_identity_full_fills_unchanged_toast_from_the_old_row(shop: Deployment) -> None:
    big = "".join(random.Random(2).choices("abcdefghij", k=40_000))
    shop.execute("alter table item replica identity full")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(f"insert into item values (1, 'a', 1, '{big}')", "update item set name = 'b'")
        shop.captured(capture)
    updated = next(v for v in values(shop.events("item")) if v["op"] == "u")
    assert updated["after"]["body"] == big
    assert updated["before"] == {"id": 1, "name": "a", "price": "1.00", "body": big}
    assert all(event.key == {"id": 1} for event in shop.events("item"))


def test_truncate_stands_in_every_partition(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (1, 'a', 1, null)", "truncate item")
        shop.captured(capture)
    truncates = [e for e in shop.events("item") if e.value and e.value["op"] == "t"]
    assert {event.partition for event in truncates} == {0, 1}
    assert len({event.position for event in truncates}) == 1
    assert fold(shop.events("item")) == {}


def test_logical_messages_become_events(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "select pg_logical_emit_message(true, 'audit', 'in')",
            "select pg_logical_emit_message(false, 'audit', 'out')",
            "insert into item values (1, 'a', 1, null)",
        )
        shop.captured(capture)
    messages = shop.topic(message_topic(shop.name))
    assert [event.key for event in messages] == [{"prefix": "audit"}] * 2
    assert [v["message"]["content"] for v in values(messages)] == ["aW4=", "b3V0"]


def test_a_schema_change_in_a_transaction_gives_each_row_its_schema(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into item values (1, 'a', 1, null)",
            "begin; insert into item values (2, 'b', 1, null);"
            " alter table item add column stock int;"
            " insert into item values (3, 'c', 1, null, 9); commit",
        )
        shop.captured(capture)
    rows = {event.key["id"]: event.value for event in shop.events("item") if event.key}
    ids = {key: value["source"]["schema_id"] for key, value in rows.items() if value}
    assert ids[1] == ids[2] != ids[3]
    assert rows[3] is not None
    assert rows[3]["after"]["stock"] == 9


def test_capture_before_init_is_refused(shop: Deployment) -> None:
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "headwater init" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_idle_source_is_confirmed_past_its_own_changes(shop: Deployment) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("create table unpublished (id int)")
        shop.execute(*["insert into unpublished select generate_series(1, 1000)"] * 3)
        target = shop.wal_end()
        shop.captured(capture)

        def confirmed() -> bool:
            with psycopg.connect(shop.dsn, autocommit=True) as conn:
                row = conn.execute(
                    "select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots"
                    " where slot_name = %s",
                    [f"headwater_{shop.name}"],
                ).fetchone()
            return row is not None and int(row[0]) >= target

        wait_until(confirmed, "the slot to let go of WAL that holds nothing captured")


def test_a_capture_that_waits_for_the_slot_sees_what_the_one_before_published(
    shop: Deployment,
) -> None:
    shop.extra = "[capture]\nfeedback_s = 14"  # the first one confirms nothing of what it publishes
    shop.init()
    with shop.running("capture") as first:
        shop.execute("insert into item values (1, 'a', 1, null)")
        shop.captured(first)
        with shop.running("capture") as second:
            waits = "another capture is running"
            wait_until(lambda: waits in shop.log("capture"), "the second capture to wait")
            shop.execute("insert into item values (2, 'b', 1, null), (3, 'c', 1, null)")
            wait_until(lambda: shop.records("item") == 3, "the first capture to publish them")
            first.kill()
            shop.execute("insert into item values (4, 'd', 1, null)")
            wait_until(lambda: '{"id": 4}' in fold(shop.events("item")), "the second to take over")
            assert second.poll() is None
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == 4


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_capture_killed_again_and_again_loses_and_doubles_nothing(
    shop: Deployment, seed: int
) -> None:
    rng = random.Random(seed)
    shop.init()
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        for _ in range(4):
            with shop.running("capture") as capture:
                for _ in range(rng.randint(40, 120)):
                    _random_transaction(conn, rng)
                if rng.random() < 0.5:
                    shop.captured(capture)
                capture.kill()
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        rows = conn.execute("select id, name, price::text from item order by id").fetchall()
    folded = fold(events)
    found = sorted((r["id"], r["name"], r["price"]) for r in folded.values())
    assert found == [tuple(row) for row in rows], f"seed {seed}"


def _random_transaction(conn: Any, rng: random.Random) -> None:
    with conn.transaction():
        for _ in range(rng.choice([1, 1, 2, 5, 300])):
            key, other = rng.randint(1, 60), rng.randint(1, 60)
            match rng.randrange(4):
                case 0 | 1:
                    conn.execute(
                        "insert into item values (%s, %s, %s, null) on conflict (id) do update"
                        " set name = excluded.name, price = excluded.price",
                        [key, f"n{rng.random()}", rng.randint(1, 99)],
                    )
                case 2:
                    conn.execute("delete from item where id = %s", [key])
                case _:
                    conn.execute(
                        "update item set id = %s where id = %s"
                        " and not exists (select from item where id = %s)",
                        [other, key, other],
                    )
