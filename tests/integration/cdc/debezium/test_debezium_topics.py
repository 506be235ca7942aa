"""Views over topics that a real Debezium connector fills, without Headwater's capture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cdc.kafka.broker import Broker
from cdc.topics import progress_topic
from stack.debezium import Worker, worker
from tests.oracle.debezium import connected
from tests.support.commands.deployment import Deployment, answer, done
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

TABLES = (
    "create table customer (id int primary key, name text not null, born timestamp, credit "
    "numeric(10,2), photo bytea, note text, since date)",
    "alter table customer alter note set storage external",
    "alter table customer alter photo set not null, alter photo set storage external",
    "insert into customer select i, 'c' || i, timestamp '1970-01-01' + i * interval '1 us', "
    "i / 4.0, decode(repeat('ab', 3000), 'hex'), repeat('n', 3000 + i), date '2024-01-01' + i "
    "from generate_series(1, 100) i",
    "create table orders (id bigint primary key, customer int not null, paid numeric(12,4))",
    "insert into orders select i, 1 + i % 100, i / 8.0 from generate_series(1, 500) i",
    "create publication dbz_publication for all tables",
)
JOINED = (
    "select o.id, o.paid, c.name, c.born, c.credit, c.photo, c.note, c.since from orders o "
    "left join customer c on c.id = o.customer"
)
SUMS = (
    "select c.id, c.name, count(o.id) as orders, sum(o.paid) as paid from customer c "
    "left join orders o on o.customer = c.id group by c.id, c.name"
)
CONVERTERS = {
    f"{part}.converter{name}": value
    for part in ("key", "value")
    for name, value in {
        "": "org.apache.kafka.connect.json.JsonConverter",
        ".schemas.enable": "true",
    }.items()
}
SETTINGS = {
    **CONVERTERS,
    "snapshot.mode": "initial",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "binary.handling.mode": "bytes",
    "interval.handling.mode": "numeric",
    "topic.creation.default.partitions": "2",
}


@pytest.fixture
def shop(deployment: Deployment, lender: Lender, redis_server: str) -> Deployment:
    deployment.jvm = lender
    deployment.execute(*TABLES)
    deployment.settings = f'events = "debezium"\nslot = "{deployment.name}"\n'
    deployment.extra = (
        '[events]\npreset = "debezium"\nskipped.operations = "none"\n'
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[apply]\nstate = "{deployment.home / "state"}"\n[capture]\nheartbeat_s = 1.0\n'
    ) + "".join(
        f'[views.{deployment.name}_{name}]\nstore = "cache"\nkey = ["id"]\nsql = "{sql}"\n'
        for name, sql in (("joined", JOINED), ("sums", SUMS))
    )
    deployment.write()
    return deployment


@contextmanager
def connector(shop: Deployment, running: Worker) -> Iterator[None]:
    with connected(running, shop.dsn, shop.name, "dbz_publication", SETTINGS):
        yield


def described(name: str, broker: Broker) -> bool:
    """Whether apply was there."""
    return bool(broker.partitions([progress_topic(name)]))


def equal(shop: Deployment) -> None:
    """All views, at an LSN of now."""
    views = f"{shop.name}_joined", f"{shop.name}_sums"
    wait_until(lambda: answer(shop.bootstrap, partial(described, shop.name)), "apply to start")
    done(shop, "wait", *views, "--timeout", "180")
    for view in views:
        report = json.loads(done(shop, "verify", view, "--json"))
        assert report["equal"], report
        assert report["source_rows"] > 50


def test_views_of_a_connectors_topics_are_equal_to_the_source(
    shop: Deployment, kafka: str, tmp_path: Path
) -> None:
    """Through its snapshot and stream, its restart, and changes of the table."""
    with worker(kafka, tmp_path / "connect", ("-Xms64m", "-Xmx384m")) as running:
        with connector(shop, running):
            code, found = shop.check()
            assert code == 0, found["error"]
            shop.execute("update customer set credit = 0 where id = 1")
            with shop.running("apply", "--json"):
                equal(shop)
                shop.execute(
                    "update customer set credit = credit + 0.01",  # leaves large values
                    "update customer set note = 'short', photo = '\\x00' where id < 20",
                    "delete from customer where id = 7",
                    "update orders set customer = 8 where customer = 7",
                    "update orders set id = 9000 where id = 9",
                    "begin; delete from orders where id = 11; insert into orders values (11, 3, 4);"
                    " update orders set paid = 5 where id = 11; commit",
                )
                equal(shop)
        shop.execute("update customer set name = 'while it was away' where id = 30")
        with connector(shop, running), shop.running("apply", "--json"):
            shop.execute(
                "alter table customer add column city text",
                "update customer set city = 'Roma' where id = 31",
                "truncate orders",
                "insert into orders select i, 1 + i % 50, i from generate_series(1, 80) i",
            )
            equal(shop)
    refused = shop.run("capture")
    assert refused.returncode == 2
    assert "the connector's" in refused.stderr
