"""``content = "row"`` and ``"cloudevents"`` on real servers: each change once, in order, through
kills; what cannot read such topics says so."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import psycopg

from cdc.kafka.broker import Broker, Record
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment, answer_in_the_end

ROWS = """partitions = 2
[events]
content = "row"
add.fields = "op,source.snapshot"
delete.tombstone.handling.mode = "rewrite-with-tombstone"
"""
VIEW = """
[stores.s]
kind = "redis"
url = "redis://localhost:1"
[views.v]
store = "s"
key = ["id"]
sql = "select id, name from item"
"""


def records(shop: Deployment) -> list[Record]:
    """All of the topic, partition by partition."""
    topic = table_topic(shop.name, "public", "item")

    def read(broker: Broker) -> list[Record]:
        ends = broker.end_offsets([topic])[topic]
        return [one for p, end in sorted(ends.items()) for one in broker.read(topic, p, 0, end)]

    return answer_in_the_end(shop.bootstrap, read)


def position(record: Record) -> bytes:
    return dict(record.headers)["position"] or b""


def test_topics_of_rows_hold_each_change_once_in_order_through_kills(shop: Deployment) -> None:
    shop.extra = ROWS
    shop.execute("insert into item select i, 'first ' || i from generate_series(1, 300) i")
    shop.init()
    for turn in range(3):
        with shop.running("capture") as capture:
            for step in range(5):
                shop.execute(
                    f"insert into item select 1000 * {turn + 1} + 100 * {step} + i, 'x'"
                    " from generate_series(1, 90) i",
                    f"update item set name = name || '{step}' where id % 7 = {step}",
                    f"delete from item where id % 11 = {step}",
                    f"update item set id = id + 100000 * {turn + 1} where id % 13 = {step}",
                )
            if turn < 2:
                capture.kill()
            else:
                shop.captured(capture)
    found = records(shop)
    newest: dict[bytes, Any] = {}
    by_partition: dict[int, list[tuple[bytes, bool]]] = defaultdict(list)
    for one in found:
        assert one.key is not None
        by_partition[one.partition].append((position(one), one.value is None))
        newest[one.key] = one.value and json.loads(one.value)
    for places in by_partition.values():
        streamed = [place for place in places if not place[0].endswith(b"00000000")]
        assert streamed == sorted(set(streamed))
    rows = [value for value in newest.values() if value is not None]
    assert {one["__deleted"] for one in rows} == {"false"}
    assert sorted((one["id"], one["name"]) for one in rows) == source_rows(shop)


def source_rows(shop: Deployment) -> list[tuple[Any, ...]]:
    with psycopg.connect(shop.dsn) as conn:
        return conn.execute("select id, name from item order by id").fetchall()


def test_rows_equal_the_source_and_what_needs_events_refuses_them(shop: Deployment) -> None:
    shop.extra = ROWS.replace("rewrite-with-tombstone", "tombstone")
    shop.execute("insert into item select i, 'first ' || i from generate_series(1, 50) i")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "update item set name = 'changed' where id < 10",
            "delete from item where id > 40",
            "update item set id = 1000 where id = 20",
        )
        shop.captured(capture)
    newest = {one.key: one.value for one in records(shop)}
    rows = [json.loads(value) for value in newest.values() if value is not None]
    assert sorted((one["id"], one["name"]) for one in rows) == source_rows(shop)
    assert {one["__source_snapshot"] for one in rows} == {"false", "true"}
    shop.extra += VIEW
    _, findings = shop.check()
    (error,) = [one for one in findings["error"] if one["check"] == "views"]
    assert 'views need whole events, and [events] has content = "row"' in error["message"]
    for command in (("apply", "--available-now"), ("trace", "item", "1")):
        refused = shop.run(*command)
        assert refused.returncode in (1, 2), command
        assert "whole events" in " ".join(refused.stderr.split()), command
    shop.extra = ROWS
    assert "were begun with" in " ".join(shop.run("capture").stderr.split())


def test_cloud_events_have_each_change_once_in_order_through_kills(shop: Deployment) -> None:
    shop.extra = 'partitions = 2\n[events]\ncontent = "cloudevents"\n'
    shop.execute("insert into item select i, 'first ' || i from generate_series(1, 300) i")
    shop.init()
    for turn in range(2):
        with shop.running("capture") as capture:
            shop.execute(
                f"insert into item select 1000 * {turn + 1} + i, 'x'"
                " from generate_series(1, 400) i",
                "update item set name = name || 'y' where id % 7 = 1",
                "delete from item where id % 11 = 3",
                f"update item set id = id + 100000 * {turn + 1} where id % 13 = 5",
            )
            if turn:
                shop.captured(capture)
            else:
                capture.kill()
    found = records(shop)
    events = [json.loads(one.value) for one in found if one.value is not None]
    assert len({event["id"] for event in events}) == len(events)
    newest = {
        one.key: None if one.value is None else json.loads(one.value)["data"]["after"]
        for one in found
    }
    rows = [row for row in newest.values() if row is not None]
    assert sorted((one["id"], one["name"]) for one in rows) == source_rows(shop)
    by_partition: dict[int, list[tuple[bytes, bool]]] = defaultdict(list)
    for one in found:
        by_partition[one.partition].append((position(one), one.value is None))
        assert (dict(one.headers).get("content-type") is None) == (one.value is None)
    for places in by_partition.values():
        streamed = [place for place in places if not place[0].endswith(b"00000000")]
        assert streamed == sorted(set(streamed))
