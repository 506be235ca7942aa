"""All stores that are servers are away for a while, and views go on by themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack import servers
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

AWAY_S = 20.0
"""Ten times the longest pause between two tries (``jobs.sinks.batch_writer.until``)."""
VIEWS = ("cache", "base", "search")
TABLES = (
    "create table orders (id int primary key, n int not null, note text)",
    "insert into orders select i, 0, 'note ' || i from generate_series(1, 200) i",
)
CHANGES = (
    "update orders set n = n + 1 where id = 1 + (select max(n) from orders) % 50",
    "insert into orders select max(id) + 1, 0, 'came meanwhile' from orders",
    "delete from orders where id = (select max(id) - 60 from orders)",
)
"""Of each transaction that commits while the stores are away."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[servers.Endpoints]:
    """A PostgreSQL that is not the source's server, and a Redis that keeps what it acknowledged."""
    settings = {"redis": {"appendfsync": "always"}}
    try:
        yield servers.start(tmp_path / "own", ["postgres", "redis"], settings)
    finally:
        servers.purge(tmp_path / "own")


@pytest.fixture
def shop(
    tmp_path: Path,
    source_name: str,
    database: str,
    kafka: str,
    opensearch: str,
    own: servers.Endpoints,
    lender: Lender,
) -> Deployment:
    stores = f"""
[stores.cache]
kind = "redis"
url = "{own.redis_url}"
[stores.base]
kind = "postgres"
dsn = "{own.postgres_dsn}"
[stores.search]
kind = "opensearch"
url = "{opensearch}"
[apply]
state = "{tmp_path}/state"
retry_s = 600.0
"""
    views = (
        f'[views.{source_name}_{store}]\nstore = "{store}"\nkey = ["id"]\n'
        'sql = "select id, n, note from orders"\n'
        for store in VIEWS
    )
    extra = stores + "".join(views)
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(*TABLES)
    made.init()
    return made


@pytest.mark.timeout(1200)
def test_views_go_on_when_their_stores_were_away(
    shop: Deployment, stack_home: Path, tmp_path: Path
) -> None:
    """Nobody starts anything but the stores, which were killed."""
    homes = {"redis": tmp_path / "own", "postgres": tmp_path / "own", "opensearch": stack_home}
    views = [f"{shop.name}_{store}" for store in VIEWS]
    with shop.running("capture") as capture, shop.running("apply", "--json") as apply:
        shop.execute("update orders set n = 1 where id < 10")
        done(shop, "wait", *views, "--timeout", "900")
        try:
            for name, home in homes.items():
                servers.kill(home, name)
            commits = _changed_meanwhile(shop, apply)
            shop.captured(capture)
            assert [_condition(home, name) for name, home in homes.items()] == ["dead"] * 3
            held = shop.run("wait", *views, "--timeout", "0")
            assert held.returncode == 3, "what no store can have is said to be there"
        finally:
            servers.start(tmp_path / "own", ["postgres", "redis"])
            servers.start(stack_home, ["opensearch"])
        shop.execute("update orders set note = 'they are back' where id < 5")
        done(shop, "wait", *views, "--timeout", "900")
        for view in views:
            assert "equal at LSN" in done(shop, "verify", view, "--timeout", "900")
        assert apply.poll() is None
        assert capture.poll() is None
        assert "view_stopped" not in shop.log("apply")
        assert commits > 20
        assert "no dead letters" in shop.run("dead-letters", "list").stderr
        lag = json.loads(done(shop, "lag", "--json"))
        assert {one["parked_keys"] for one in lag["views"]} == {0}


def _condition(home: Path, name: str) -> str:
    (found,) = (one for one in servers.status(home) if one.name == name)
    return found.condition


def _changed_meanwhile(shop: Deployment, apply: Child) -> int:
    """Change after change until one has committed ``AWAY_S`` behind the kill; how many."""
    killed, commits = time.monotonic(), 0
    with psycopg.connect(shop.dsn, autocommit=True) as conn:

        def over() -> bool:
            nonlocal commits
            with conn.transaction():
                for statement in CHANGES:
                    conn.execute(statement.encode())
            commits += 1
            if apply.poll() is not None:  # no assertion, which would be waited for
                raise RuntimeError(f"apply has ended:\n{shop.log('apply')}")
            return time.monotonic() - killed > AWAY_S

        wait_until(over, "a change that commits long after the stores went", 10 * AWAY_S)
    return commits
