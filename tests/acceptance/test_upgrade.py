"""What an earlier version had left (``tests/upgrades/recorded``), taken over by this one: views go
on where they were, and a state of a later version is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import redis

from jobs.state.server.migration import FOLDER as STATE_MIGRATIONS
from migrations.runner import migrations
from tests.chaos.servers.environment import connect, database
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.lent_jvm import Lender
from tests.upgrades.deployed import STATE_DATABASE, STORE_DATABASE, VIEW_NAMES
from tests.upgrades.record import FOLDER
from tests.upgrades.restore import restored

RECORDED = sorted(FOLDER.glob("*.json"))
LATER = "insert into headwater.migration (version, name, checksum) values (9000, 'later', 'x')"
NOT_LATER = "delete from headwater.migration where version = 9000"
REBUILT = ('"view_build"', '"view_built"', '"mirror_filled"', '"snapshot')
MEANWHILE = (
    "update orders set total = total + 100 where id = 2",
    "delete from orders where id = 12",
    "insert into orders values (201, 4, 8, 2, '2026-04-01 00:00+00', 'late')",
)
"""While nothing runs."""
AFTERWARDS = (
    "update customers set name = 'Renamed' where id = 3",
    "update orders set remark = 'after' where id = 101",
    "insert into visits values (201, '/later', '2026-04-01 00:00+00')",
)
MENDED = "update orders set parts = 2 where id = 11"


class Upgraded(NamedTuple):
    """``before`` and ``after``: versions of the schema in the source and in the state database."""

    deployment: Deployment
    redis_url: str
    before: tuple[int, int]
    after: tuple[int, int]
    parked: Any
    views: Any
    verified: dict[str, Any]


@pytest.fixture(scope="module", params=RECORDED, ids=lambda file: str(file.stem))
def upgraded(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Upgraded]:
    """As docs/deploy.md says: ``init``, then capture, then apply; both have ended again."""
    home = tmp_path_factory.mktemp("upgraded")
    with restored(request.param, home, postgres, kafka, redis_server) as deployment:
        deployment.jvm = lender
        before = _versions(deployment)
        deployment.execute(*MEANWHILE)
        done(deployment, "init")
        with deployment.running("capture", "--json"), deployment.running("apply", "--json"):
            _wait(deployment)
            parked = json.loads(done(deployment, "dead-letters", "list", "up_prices", "--json"))
            deployment.execute(*AFTERWARDS, MENDED)
            _wait(deployment)
            views = json.loads(done(deployment, "view", "list", "--json"))
            verified = {
                view: json.loads(done(deployment, "verify", view, "--json", "--timeout", "60"))
                for view in VIEW_NAMES
            }
        after = _versions(deployment)
        yield Upgraded(deployment, redis_server, before, after, parked, views, verified)


def _wait(deployment: Deployment) -> None:
    done(deployment, "wait", *VIEW_NAMES, "--timeout", "120")


def _versions(deployment: Deployment) -> tuple[int, int]:
    source, state = (
        _rows(dsn, "select max(version) from headwater.migration")[0][0]
        for dsn in (deployment.dsn, database(deployment.dsn, STATE_DATABASE))
    )
    return source, state


def _rows(dsn: str, query: str) -> list[Any]:
    with connect(dsn) as conn:
        return conn.execute(query.encode()).fetchall()


def test_there_is_a_recorded_state() -> None:
    assert RECORDED


def test_schemas_go_forward(upgraded: Upgraded) -> None:
    newest = len(migrations()), len(migrations(STATE_MIGRATIONS))
    assert upgraded.after == newest
    assert all(old <= new for old, new in zip(upgraded.before, newest, strict=True))


def test_views_go_on_without_a_rebuild(upgraded: Upgraded) -> None:
    said = upgraded.deployment.log("apply")
    assert [line for line in said.splitlines() if any(word in line for word in REBUILT)] == []
    numbers = {
        view["view"]: [one["generation"] for one in view["generations"]] for view in upgraded.views
    }
    assert numbers == {name: [1] for name in VIEW_NAMES}


def test_rows_are_those_of_the_source(upgraded: Upgraded) -> None:
    assert {view: found["equal"] for view, found in upgraded.verified.items()} == dict.fromkeys(
        VIEW_NAMES, True
    )
    reports = database(upgraded.deployment.dsn, STORE_DATABASE)
    found = _rows(reports, "select id, name, orders, total from up_totals order by id")
    wanted = (
        "select c.id, c.name, count(o.id), sum(o.total)"
        " from customers c left join orders o on o.customer_id = c.id group by c.id order by c.id"
    )
    assert found == _rows(upgraded.deployment.dsn, wanted)
    client: Any = redis.Redis.from_url(upgraded.redis_url, decode_responses=True)
    with client:
        live = client.get("up_orders@live")
        ids = {
            name.split(":")[1] for name in client.scan_iter(f"{live}:*") if client.hget(name, "doc")
        }
        document = json.loads(client.hget(f"{live}:2", "doc"))
    assert ids == {str(row[0]) for row in _rows(upgraded.deployment.dsn, "select id from orders")}
    assert (document["name"], document["total"]) == ("Renamed", "102.50")


def test_a_parked_key_stays_parked_until_its_row_is_mended(upgraded: Upgraded) -> None:
    assert "11" in json.dumps(upgraded.parked)
    assert upgraded.verified["up_prices"]["equal"]


def test_a_state_of_a_later_version_is_refused(upgraded: Upgraded) -> None:
    deployment = upgraded.deployment
    state = database(deployment.dsn, STATE_DATABASE)
    with connect(state) as conn:
        conn.execute(LATER.encode())
        try:
            ended = deployment.run("apply", timeout_s=60)
        finally:
            conn.execute(NOT_LATER.encode())
    assert ended.returncode == 1
    assert "state database: the schema headwater is at version 9000" in ended.stderr
    assert "Use the version of Headwater that migrated it" in ended.stderr


def test_a_source_of_a_later_version_is_refused(upgraded: Upgraded) -> None:
    """By ``init``, which each setup runs before capture."""
    with connect(upgraded.deployment.dsn) as conn:
        conn.execute(LATER.encode())
        try:
            ended = upgraded.deployment.run("init", timeout_s=60)
        finally:
            conn.execute(NOT_LATER.encode())
    assert ended.returncode == 1
    assert "the schema headwater is at version 9000" in ended.stderr
