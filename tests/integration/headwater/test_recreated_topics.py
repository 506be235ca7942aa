"""A topic that is deleted and made anew while nobody reads: no view goes on at its old offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import redis

from cdc.kafka.broker import Broker
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

SQL = "select id, word from item"
JOINED = "select i.id, i.word, k.name from item i join kind k on k.id = i.id % 3"


@pytest.fixture
def shop(deployment: Deployment, lender: Lender, redis_server: str) -> Deployment:
    """Views over mirrors, and one without: Spark alone keeps it."""
    deployment.jvm = lender
    deployment.execute(
        "create table item (id int primary key, word text)",
        "create table kind (id int primary key, name text)",
        "create table event (id int primary key, word text)",
        "insert into kind select i, 'kind ' || i from generate_series(0, 2) i",
        *(f"insert into {t} select i, 'old' from generate_series(1, 200) i" for t in TABLES),
    )
    declared = "\n".join(
        f'[views.{name(deployment, view)}]\nstore = "cache"\nkey = ["id"]\nsql = "{sql}"'
        for view, sql in VIEWS.items()
    )
    deployment.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[apply]\nstate = "{deployment.home / "state"}"\nretry_s = 5\n'
        f'[tables."public.event"]\nmirror = false\n{declared}\n'
    )
    deployment.init()
    return deployment


TABLES = ("item", "event")
VIEWS = {"items": SQL, "joined": JOINED, "events": SQL.replace("item", "event")}


def name(deployment: Deployment, view: str) -> str:
    return f"{deployment.name}_{view}"


def shown(client: Any, view: str) -> list[Any]:
    """What readers see of it, by id."""
    found = [json.loads(client.hget(key, "doc") or "null")
             for key in client.scan_iter(f"{client.get(view + '@live')}:*", 5_000)]  # fmt: skip
    return sorted((one for one in found if one), key=lambda one: int(one["id"]))


def expected(deployment: Deployment, sql: str) -> list[Any]:
    with psycopg.connect(deployment.dsn) as conn:
        query = f"select to_jsonb(v) from ({sql}) v order by id"
        return [row for (row,) in conn.execute(query.encode()).fetchall()]


@contextmanager
def kept(deployment: Deployment) -> Iterator[None]:
    with deployment.running("capture"), deployment.running("apply", "--json"):
        yield


def recreate(deployment: Deployment) -> None:
    """Delete the topics of two tables, and have them made and filled anew."""
    with Broker(deployment.bootstrap) as broker:
        topics = [table_topic(deployment.name, "public", table) for table in TABLES]
        broker.delete_topics(topics)
        wait_until(lambda: not broker.partitions(topics), "the topics to be gone")
    deployment.execute(
        *(f"insert into {t} select i, 'new' from generate_series(201, 1200) i" for t in TABLES),
        *(f"update {t} set word = 'changed' where id % 2 = 0" for t in TABLES),
        *(f"delete from {t} where id % 5 = 0" for t in TABLES),
    )
    again = deployment.run("init", "--again")
    assert again.returncode == 0, again.stderr


def test_views_over_mirrors_have_all_that_is_new_and_others_say_that_they_cannot(
    shop: Deployment, redis_server: str
) -> None:
    client: Any = redis.Redis.from_url(redis_server, decode_responses=True)
    names = [name(shop, view) for view in VIEWS]
    with kept(shop):
        waited = shop.run("wait", *names, "--timeout", "120")
        assert waited.returncode == 0, waited.stderr + shop.log("apply")[-3000:]
    recreate(shop)
    with kept(shop):
        waited = shop.run("wait", *names[:2], "--timeout", "120")
        assert waited.returncode == 0, waited.stderr + shop.log("apply")[-3000:]
        assert "topics_recreated" in shop.log("apply")
        for view in ("items", "joined"):
            assert shown(client, name(shop, view)) == expected(shop, VIEWS[view]), view
        wait_until(
            lambda: "was recreated, or belongs to another" in shop.log("apply"), "an error", 60
        )
        stopped = shop.run("wait", names[2], "--timeout", "60")
        assert stopped.returncode == 1, stopped.stdout + stopped.stderr
        assert f"headwater view rebuild {names[2]}" in stopped.stderr
        replayed = shop.run("replay", names[0], "--from", "beginning")
        assert replayed.returncode == 0, replayed.stderr
        assert shown(client, names[0]) == expected(shop, VIEWS["items"])
        refused = shop.run("replay", names[2], "--from", "beginning")
        assert refused.returncode == 1, refused.stdout
        assert f"headwater view rebuild {names[2]}" in refused.stderr
        rebuilt = shop.run("view", "rebuild", names[2])
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert shown(client, names[2]) == expected(shop, VIEWS["events"])
    shop.extra = shop.extra.partition(f"[views.{names[2]}]")[0]  # files alone know of it
    listed = {one["view"]: one for one in json.loads(shop.run("view", "list", "--json").stdout)}
    assert (listed[names[2]]["declared"], listed[names[0]]["declared"]) == (False, True)
    dropped = shop.run("view", "drop", names[2], "--yes")
    assert dropped.returncode == 0, dropped.stderr
    assert not list(client.scan_iter(f"{names[2]}@*"))
    assert names[2] not in shop.run("view", "list", "--json").stdout
