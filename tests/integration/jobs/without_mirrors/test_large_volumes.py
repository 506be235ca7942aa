"""What is large goes through Spark's tasks: a new view of many rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from tests.support.commands.deployment import Deployment

ROWS = 100_400
"""A load is divided from 100,000 rows on."""
TABLES = (
    "create table kind (id int primary key, name text not null)",
    "insert into kind select i, 'kind ' || i from generate_series(1, 50) i",
    "create table item (id int primary key, kind_id int not null, n int)",
    f"insert into item select i, 1 + i % 50, i from generate_series(1, {ROWS}) i",
)
SQL = "select i.id, i.n, k.name as kind from item i join kind k on k.id = i.kind_id"


@pytest.fixture
def shop(deployment: Deployment, redis_server: str) -> Iterator[Deployment]:
    deployment.execute(*TABLES)
    lake = deployment.home / "lake"
    deployment.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[stores.lake]\nkind = "delta"\npath = "{lake}"\n'
        f'[apply]\nengine = "database"\nstate = "{deployment.home / "state"}"\n'
        + "".join(
            f'[views.{name(deployment, store)}]\nstore = "{store}"\nkey = ["id"]\nsql = "{SQL}"\n'
            for store in ("cache", "lake")
        )
    )
    deployment.init()
    with ExitStack() as stack:
        capture = stack.enter_context(deployment.running("capture"))
        deployment.captured(capture)
        yield deployment


def name(deployment: Deployment, store: str) -> str:
    return f"{deployment.name}_{store}"


def done(deployment: Deployment, *arguments: str) -> str:
    ended = deployment.run(*arguments)
    assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr[-6000:]}"
    return ended.stdout


@pytest.mark.exhaustive
def test_a_large_view_is_loaded_by_tasks(shop: Deployment, redis_server: str) -> None:
    view = name(shop, "cache")
    (said,) = json.loads(done(shop, "view", "create", view, "--json"))
    assert said["rows"] == ROWS
    client: Any = redis.Redis.from_url(redis_server, decode_responses=True)
    rows = client.get(f"{view}@live")
    pipeline = client.pipeline(transaction=False)
    for id_ in range(1, ROWS + 1):
        pipeline.hget(f"{rows}:{id_}", "doc")
    found = [json.loads(doc) for doc in pipeline.execute()]
    assert found == [
        {"id": id_, "n": id_, "kind": f"kind {1 + id_ % 50}"} for id_ in range(1, ROWS + 1)
    ]
