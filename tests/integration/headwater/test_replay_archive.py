"""``headwater replay --archive``: a view is right again though Kafka has lost what it needs, and a
gap between the archive and Kafka is refused."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest
import redis
from deltalake import DeltaTable, QueryBuilder
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition

from cdc.kafka.broker import Broker
from cdc.lsn import format_lsn
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender

SQL = "select id, n from event"
LOST = "retention has deleted records"


@pytest.fixture
def shop(deployment: Deployment, lender: Lender, redis_server: str) -> Deployment:
    """A table without a mirror, a view of it in Redis, its versions, and an archive."""
    deployment.jvm = lender
    deployment.execute(
        "create table event (id int primary key, n int, note text, at timestamptz default now())",
        "insert into event (id, n) select i, 0 from generate_series(1, 200) i",
    )
    name, home = deployment.name, deployment.home
    declared = [("cache", "cache", SQL, ""), ("versions", "lake", SQL, "scd2")]
    declared.append(("log", "lake", "select * from event", "log"))
    deployment.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{home / "lake"}"\ncadence_s = 0.2\n'
        f'[apply]\nstate = "{home / "state"}"\nretry_s = 5\n'
        '[tables."public.event"]\nmirror = false\n'
    ) + "".join(
        f'[views.{name}_{view}]\nstore = "{store}"\nkey = ["id"]\nsql = "{sql}"\n'
        + (f'history = "{history}"\n' if history else "")
        for view, store, sql, history in declared
    )
    deployment.init()
    return deployment


def forget(shop: Deployment) -> None:
    """Retention, at its worst: Kafka holds nothing of what the topic has by now."""
    topic = table_topic(shop.name, "public", "event")
    with Broker(shop.bootstrap) as broker:
        ends = broker.end_offsets([topic])[topic]
    with closing(KafkaAdminClient(bootstrap_servers=shop.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic, p): at for p, at in ends.items()})


def change(shop: Deployment, *statements: str) -> None:
    with shop.running("capture") as capture:
        shop.execute(*statements)
        shop.captured(capture)


def applied(shop: Deployment, *views: str) -> None:
    """Keep some views until they have all."""
    names = [f"{shop.name}_{view}" for view in views]
    with shop.running("apply", *names, "--json"):
        done(shop, "wait", *names, "--timeout", "120", "--lsn", format_lsn(shop.newest_mark().lsn))


def shown(client: Any, view: str) -> dict[int, int]:
    """What readers see of it, by id."""
    live = client.get(f"{view}@live") or view
    found = (json.loads(client.hget(key, "doc") or "null") for key in client.scan_iter(f"{live}:*"))
    return {int(one["id"]): one["n"] for one in found if one}


def rows(shop: Deployment) -> dict[int, int]:
    with psycopg.connect(shop.dsn) as conn:
        return dict(conn.execute("select id, n from event").fetchall())


def lake(shop: Deployment, view: str, sql: str) -> list[dict[str, Any]]:
    """What the query finds in ``v``, a view's table."""
    table = DeltaTable(shop.home / "lake" / f"{shop.name}_{view}")
    found = pa.table(QueryBuilder().register("v", table).execute(sql).read_all())
    return cast("list[dict[str, Any]]", found.to_pylist())


def test_a_view_is_replayed_out_of_its_archive_when_kafka_has_lost_the_changes(
    shop: Deployment, redis_server: str
) -> None:
    client: Any = redis.Redis.from_url(redis_server, decode_responses=True)
    cache, scd2, log = (f"{shop.name}_{view}" for view in ("cache", "versions", "log"))
    replay = "replay", cache, "--archive", log, "--from"
    with shop.running("capture") as capture:
        shop.execute("update event set n = 1", "delete from event where id % 7 = 0")
        begun, since = format_lsn(shop.wal_end()), datetime.now(UTC).isoformat()
        shop.execute(
            "update event set n = 2 where id % 3 = 0", "delete from event where id % 5 = 0"
        )
        shop.captured(capture)
    applied(shop, "cache", "log", "versions")
    forget(shop)

    # the store has lost its rows
    client.delete(*client.scan_iter(f"{client.get(f'{cache}@live') or cache}:*"))
    refused = shop.run("replay", cache, "--from", "0/1")
    assert (refused.returncode, LOST in refused.stderr) == (1, True), refused.stderr
    assert "--archive" in refused.stderr
    some = json.loads(done(shop, *replay, begun, "--json"))
    assert 0 < some["archived"] < 200
    assert json.loads(done(shop, *replay, since, "--json"))["archived"] == some["archived"]
    assert shown(client, cache) == {i: n for i, n in rows(shop).items() if i % 3 == 0}
    assert json.loads(done(shop, *replay, "beginning", "--json"))["archived"] == 200
    assert shown(client, cache) == rows(shop)

    # the archive goes on, the views do not, and Kafka forgets what they would apply next
    change(shop, "update event set n = n + 10 where id % 2 = 0", "delete from event where id = 1")
    applied(shop, "log")
    forget(shop)
    change(shop, "insert into event (id, n) values (1000, 5)", "delete from event where id = 2")
    behind = shop.run(*replay, begun)
    assert (behind.returncode, "--from beginning" in behind.stderr) == (2, True), behind.stderr
    done(shop, *replay, "beginning")
    done(shop, "replay", scd2, "--archive", log, "--from", "beginning")
    applied(shop, "cache", "log", "versions")
    assert shown(client, cache) == rows(shop)
    kept = lake(shop, "versions", "select * from v")
    assert {one["id"]: one["n"] for one in kept if one["__current"]} == rows(shop)
    assert len(kept) == len(lake(shop, "log", "select id from v where __op <> 'd'"))

    # changes that are in neither
    change(shop, "update event set n = 7 where id = 3")
    forget(shop)
    gap = shop.run(*replay, "beginning")
    assert (gap.returncode, "are in neither" in gap.stderr) == (1, True), gap.stderr
    assert "headwater view rebuild" in gap.stderr
    assert shown(client, cache)[3] == 2
