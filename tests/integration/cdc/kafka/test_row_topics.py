"""``content = "row"`` and ``"cloudevents"`` on real servers: each change once, in order, through
kills; what cannot read such topics says so."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psycopg

from cdc.kafka.broker import Broker, Record
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment, answer_in_the_end

ROWS = """partitions = 2
[events]
content = "row"
add.fields = "op,source.snapshot"
add.headers = "op,source.snapshot,xmin"
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


def records(shop: Deployment, topic: str = "") -> list[Record]:
    """All of the topic, of ``item``'s by default, partition by partition."""
    topic = topic or table_topic(shop.name, "public", "item")

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


def source_rows(shop: Deployment, table: str = "item") -> list[tuple[Any, ...]]:
    with psycopg.connect(shop.dsn) as conn:
        return conn.execute(f"select id, name from {table} order by id".encode()).fetchall()


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
    for one in records(shop):
        headers, value = dict(one.headers), json.loads(one.value or b"null")
        assert headers["__xmin"] is None
        assert headers["__op"] == (value["__op"].encode() if value else b"d")
        marked = value["__source_snapshot"].encode() if value else b"false"
        assert headers["__source_snapshot"] == marked
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


ROUTES = """
[[source.routes]]
tables = ["public.item"]
content = "row"
add.fields = "op"
delete.tombstone.handling.mode = "rewrite-with-tombstone"
[[source.routes]]
tables = ["public.note"]
rows_topic = "{source}.rows.{table}"
"""


def test_rows_beside_events_and_rows_of_some_tables_are_exact_through_kills(
    shop: Deployment,
) -> None:
    shop.settings, shop.extra = ROUTES, "partitions = 2\n"
    shop.execute(
        "create table note (id int primary key, name text)",
        *(f"insert into {table} select i, 'first ' || i from generate_series(1, 300) i"
          for table in ("item", "note")),
    )  # fmt: skip
    shop.init()
    for turn in range(3):
        with shop.running("capture") as capture:
            shop.execute(*(
                f"begin; insert into item {of}; insert into note {of};"
                f" update note set name = name || '{step}' where id % 7 = {step};"
                f" update item set name = name || '{step}' where id % 7 = {step};"
                f" delete from item where id % 11 = {step};"
                f" delete from note where id % 11 = {step};"
                f" update item set id = id + 100000 * {turn + 1} where id % 13 = {step}; commit"
                for step in range(5)
                for of in [f"select 1000 * {turn + 1} + 100 * {step} + i, 'x'"
                           " from generate_series(1, 90) i"]
            ))  # fmt: skip
            if turn < 2:
                capture.kill()
            else:
                shop.captured(capture)
    rows = [one for one in newest(records(shop)).values() if one is not None]
    assert {one["__deleted"] for one in rows} == {"false"}
    assert sorted((one["id"], one["name"]) for one in rows) == source_rows(shop)
    in_order_once(records(shop), position)
    topic = table_topic(shop.name, "public", "note")
    events = [one for one in newest(records(shop, topic)).values() if one is not None]
    images = [one["after"] for one in events if one["op"] != "d"]
    assert sorted((one["id"], one["name"]) for one in images) == source_rows(shop, "note")
    in_order_once([one for one in records(shop, topic) if one.value is not None], own_position)
    beside = records(shop, f"{shop.name}.rows.note")
    rows = [one for one in newest(beside).values() if one is not None]
    assert sorted((one["id"], one["name"]) for one in rows) == source_rows(shop, "note")
    in_order_once(beside, position)
    created = sum(one.value is not None for one in beside)
    assert created == sum(json.loads(one.value or b"{}").get("op") in ("r", "c", "u")
                          for one in records(shop, topic))  # fmt: skip
    what_needs_events_has_those_of_the_other_table_alone(shop)


def newest(found: list[Record]) -> dict[bytes | None, Any]:
    """The last value of each key."""
    return {one.key: None if one.value is None else json.loads(one.value) for one in found}


def own_position(record: Record) -> bytes:
    source = json.loads(record.value or b"")["source"]
    return b"%016X%08X" % (source["commit_lsn"], source["ordinal"])


def in_order_once(found: list[Record], at: Callable[[Record], bytes]) -> None:
    by_partition: dict[int, list[tuple[bytes, bool]]] = defaultdict(list)
    for one in found:
        by_partition[one.partition].append((at(one), one.value is None))
    for places in by_partition.values():
        streamed = [place for place in places if not place[0].endswith(b"00000000")]
        assert streamed == sorted(set(streamed))


def what_needs_events_has_those_of_the_other_table_alone(shop: Deployment) -> None:
    assert shop.run("trace", "note", "1").returncode == 0
    of_note = VIEW[VIEW.index("[views.v]") :].replace("views.v", "views.w")
    shop.extra += VIEW + of_note.replace("from item", "from note")
    _, findings = shop.check()
    told = {one["check"]: one["message"] for one in findings["error"]}
    assert 'public.item has no events: content = "row"' in told["view v"]
    assert "view w" not in told
    for command in (("apply", "--available-now"), ("trace", "item", "1")):
        refused = shop.run(*command)
        assert refused.returncode in (1, 2), command
        assert 'has no events: content = "row"' in " ".join(refused.stderr.split()), command
    shop.settings = ""
    said = " ".join(shop.run("capture").stderr.split())
    assert "public.item is in topic" in said
    assert "with other keys, partitions or content" in said
