"""Records whose schemas are in a registry, on real servers: nothing lost or twice through a kill,
and what happens while the registry is away or refuses a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc.config.registry import Registry
from cdc.kafka.broker import Broker
from cdc.registry.schemas import SchemaRegistry
from cdc.topics import message_topic, table_topic, transaction_topic
from stack.ports import free_port
from stack.schema_registry import SchemaRegistry as Server
from stack.schema_registry import schema_registry
from tests.support.commands.deployment import (
    Deployment,
    Event,
    answer_in_the_end,
    assert_exactly_once_in_order,
    fold,
)
from tests.support.servers.proxy import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    between = Proxy(free_port(set()), server.port)
    yield between
    between.close()


def settings(server: Server, port: int, format: str) -> str:
    url = server.url.replace(f":{server.port}", f":{port}")
    return f'partitions = 3\n[events]\nformat = "{format}"\n[events.registry]\nurl = "{url}"\n'


def read(deployment: Deployment, server: Server, topic: str) -> list[Event]:
    """Everything in a topic, partition by partition, read by the schemas that the records name."""
    registry = SchemaRegistry(Registry(url=server.url))

    def value(data: bytes | None) -> Any:
        assert data is None or data[:1] == b"\0"
        return None if data is None else registry.value(data)

    def everything(broker: Broker) -> list[Event]:
        return [
            Event(one.partition, one.offset, one.timestamp_ms, value(one.key), value(one.value))
            for partition, end in sorted(broker.end_offsets([topic])[topic].items())
            for one in broker.read(topic, partition, 0, end)
        ]

    return answer_in_the_end(deployment.bootstrap, everything)


def rows(events: list[Event]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in fold(events).values())


@pytest.mark.parametrize(
    "format",
    [
        "avro",
        pytest.param("json-schema", marks=pytest.mark.exhaustive),
        pytest.param("protobuf", marks=pytest.mark.exhaustive),
    ],
)
def test_records_with_schemas_in_a_registry_stand_once_through_kills_and_an_outage(
    deployment: Deployment, server: Server, proxy: Proxy, format: str
) -> None:
    shop, insert = deployment, "insert into item select i, 'n' || i, i from generate_series"
    shop.execute(
        'create table item (id int primary key, name text, "so-called" numeric(9,2))',
        f"{insert}(1, 50) i",
    )
    shop.extra = settings(server, proxy.port, format)
    shop.init()
    topic = table_topic(shop.name, "public", "item")
    with shop.running("capture") as capture:
        shop.execute(
            f"{insert}(100, 899) i",
            "update item set id = id + 10000 where id = 7",
            "select pg_logical_emit_message(true, 'note', 'hello')",
        )
        wait_until(lambda: shop.records("item") > 100, "some of it to be in Kafka")
        capture.kill()
    with shop.running("capture") as capture:
        shop.execute("delete from item where id between 100 and 199", f"{insert}(2000, 2999) i")
        shop.captured(capture)
        proxy.stall()
        proxy.cut()
        shop.execute(f"{insert}(3000, 3499) i", "update item set name = 'm' where id < 10")
        shop.captured(capture)
        proxy.close()
        shop.execute(
            "alter table item add hue text", "insert into item values (9001, 'x', 1, 'red')"
        )
        subject = f"subject {topic}-value: the schema registry at"
        wait_until(lambda: subject in shop.log("capture"), "capture to say what it waits for")
        back = Proxy(proxy_port(shop), server.port)
        shop.captured(capture)
        back.close()
    events = read(shop, server, topic)
    assert_exactly_once_in_order(events)
    with_hue = [(*row, None)[:4] for row in rows(events)]
    assert with_hue == source_rows(shop)
    ops = [event.value["op"] if event.value else None for event in events]
    assert (ops.count("d"), ops.count(None), ops.count("r")) == (101, 101, 50)
    (message,) = read(shop, server, message_topic(shop.name))
    assert (message.key, message.value and message.value["op"]) == ({"prefix": "note"}, "m")
    versions = server.ask("GET", f"/subjects/{topic}-value/versions")
    assert versions == [1, 2]


def proxy_port(shop: Deployment) -> int:
    (line,) = [line for line in shop.extra.splitlines() if line.startswith("url = ")]
    return int(line.split(":")[2].split("/")[0])


def source_rows(shop: Deployment) -> list[tuple[Any, ...]]:
    with psycopg.connect(shop.dsn) as conn:
        text = 'select id, name, "so-called"::text, hue from item order by id'
        return conn.execute(text.encode()).fetchall()


def test_a_schema_that_the_registry_refuses_stops_capture_and_what_was_held_back_follows(
    shop: Deployment, server: Server
) -> None:
    shop.extra = settings(server, server.port, "avro")
    shop.extra += "[capture]\ntransaction_metadata = true\n"
    shop.execute("insert into item values (1, 'a')")
    shop.init()
    subject = f"{table_topic(shop.name, 'public', 'item')}-value"
    server.ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    with shop.running("capture") as capture:
        shop.execute("insert into item values (2, 'b')")
        shop.captured(capture)
        shop.execute(
            "alter table item alter name type int using null", "insert into item values (3, 7)"
        )
        assert capture.wait(120) == 1
    said = " ".join(shop.log("capture").split())
    assert f"schema of subject {subject} is not compatible with its version 1" in said
    assert "compatibility level to NONE" in said
    code, findings = shop.check()
    assert code == 1
    assert [one for one in findings["error"] if subject in one["message"]]
    server.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = read(shop, server, table_topic(shop.name, "public", "item"))
    assert_exactly_once_in_order(events)
    after = {e.value["after"]["id"]: e.value["after"]["name"] for e in events if e.value}
    assert after == {1: "a", 2: "b", 3: 7}
    marks = [one.value for one in read(shop, server, transaction_topic(shop.name)) if one.value]
    assert [mark["status"] for mark in marks] == ["BEGIN", "END"] * 2
    assert marks[1]["data_collections"] == [{"data_collection": "public.item", "event_count": 1}]


ROUTES = """
[[source.routes]]
tables = ["public.item_*"]
topic = "{source}.things"
partition_by = ["shop"]
[[source.routes]]
tables = ["public.person"]
topic = "people.{source}"
rows_topic = "{source}.rows.{table}"
add.fields = "op"
"""


def test_tables_of_routes_have_schemas_of_their_own_in_a_shared_topic_and_in_others(
    deployment: Deployment, server: Server
) -> None:
    shop = deployment
    shop.execute(
        "create table item_1 (shop int, id int, name text, primary key (shop, id))",
        "create table item_2 (shop int, id int, price numeric(9,2), primary key (shop, id))",
        "create table person (id int primary key, name text)",
        "insert into item_1 select 1, i, 'n' || i from generate_series(1, 20) i",
        "insert into person select i, 'n' || i from generate_series(1, 20) i",
    )
    shop.settings = ROUTES
    shop.extra = settings(server, server.port, "avro")
    shop.extra += 'subject.name.strategy = "TopicRecordNameStrategy"\n'
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into item_2 select 1 + i % 3, i, i + 0.5 from generate_series(1, 40) i",
            "delete from item_1 where id < 5",
            "update item_2 set shop = 9 where id = 7",
            "update person set name = 'changed' where id < 5",
            "delete from person where id > 15",
        )
        shop.captured(capture)
    things = read(shop, server, f"{shop.name}.things")
    assert_exactly_once_in_order(things)
    with psycopg.connect(shop.dsn) as conn:
        expected = [
            *conn.execute("select shop, id, name from item_1").fetchall(),
            *conn.execute("select shop, id, price::text from item_2").fetchall(),
        ]
        people = conn.execute("select id, name from person order by id").fetchall()
    assert rows(things) == sorted(expected)
    for event in things:
        if event.value is not None:
            source = event.value["source"]
            assert (event.key or {})["__table"] == f"{shop.name}.public.{source['table']}"
    assert rows(read(shop, server, f"people.{shop.name}")) == people
    beside = {str(one.key): one.value for one in read(shop, server, f"{shop.name}.rows.person")}
    held = [(one["id"], one["name"]) for one in beside.values() if one is not None]
    assert sorted(held) == people
    subjects = server.ask("GET", "/subjects")
    for table in ("item_1", "item_2"):
        for record in ("Key", "Envelope"):
            assert f"{shop.name}.things-{shop.name}.public.{table}.{record}" in subjects
