"""``headwater lag`` and ``headwater verify`` on the whole path, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

TABLE = (
    "create table orders (id bigint primary key, total numeric(12,2), at timestamptz, note text)"
)
ROWS = "insert into orders select i, i * 1.1, now(), 'note ' || i from generate_series(1, 500) i"


@pytest.fixture
def deployment(
    tmp_path: Path, source_name: str, database: str, kafka: str, redis_server: str, lender: Lender
) -> Deployment:
    extra = f"""
[stores.cache]
kind = "redis"
url = "{redis_server}"
[apply]
state = "{tmp_path}/state"
[views.{source_name}_orders]
store = "cache"
key = ["id"]
sql = "select id, total, at, note from orders where total > 1.2"
"""
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    deployment.execute(TABLE, ROWS)
    deployment.init()
    return deployment


def view(deployment: Deployment) -> str:
    return f"{deployment.name}_orders"


def lag(deployment: Deployment) -> dict[str, Any]:
    done = deployment.run("lag", "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def states(deployment: Deployment) -> set[str]:
    return {item["state"] for item in lag(deployment)["views"]}


def test_lag_and_verify_follow_a_view_from_its_start(deployment: Deployment) -> None:
    before = lag(deployment)
    assert before["capture"]["slot"] == f"headwater_{deployment.name}"
    assert before["capture"]["active"] is False
    assert states(deployment) == {"no data"}
    assert sum(item["behind_records"] for item in before["views"]) == 500

    with deployment.running("capture") as capture, deployment.running("apply") as apply:
        deployment.captured(capture)

        def up_to_date() -> bool:
            assert apply.poll() is None, deployment.log("apply")
            return states(deployment) == {"idle"}

        wait_until(up_to_date, "the view to be up to date", timeout_s=200)
        now = lag(deployment)
        assert now["capture"]["active"] is True
        assert {item["behind_s"] for item in now["views"]} == {0.0}
        assert all(item["behind_bytes"] < 1_000_000 for item in now["views"])

        deployment.execute(
            "update orders set note = 'new' where id <= 100", "delete from orders where id > 490"
        )
        done = deployment.run("verify", view(deployment))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "equal at LSN" in done.stdout

        tamper(deployment)
        done = deployment.run("verify", view(deployment), "--json")
        assert done.returncode == 1, done.stderr
        report = json.loads(done.stdout)
        assert (report["missing"], report["different"], report["extra"]) == (1, 1, 0)
        found = {item["kind"]: item for item in report["differences"]}
        assert found["missing"]["key"] == {"id": 7}
        assert found["different"]["key"] == {"id": 8}
        assert found["different"]["columns"] == {"note": {"source": "new", "view": "wrong"}}
        done = deployment.run("verify", view(deployment), "--repair", timeout_s=600)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "repaired at LSN" in done.stdout
        assert "missing 1, extra 0, different 1, repaired 2; 2 rounds" in " ".join(
            done.stdout.split()
        )
        deployment.execute("update orders set note = 'later' where id in (7, 8)")
        done = deployment.run("verify", view(deployment), "--timeout", "200")
        assert done.returncode == 0, "apply goes on: " + done.stdout + deployment.log("apply")
    shown = deployment.run("lag", view(deployment))
    assert "not running" in shown.stdout
    assert "blocked" in shown.stdout

    emptied(deployment)
    with deployment.running("capture") as capture:
        deployment.captured(capture)
        for command in (["verify", view(deployment)], ["apply", "--available-now"]):
            done = deployment.run(*command)
            assert done.returncode == 1, "verify made it anew, and empty: " + done.stdout
            assert "no longer holds the changes that were applied to it" in done.stderr
            assert f"headwater view rebuild {view(deployment)}" in done.stderr


def emptied(deployment: Deployment) -> None:
    """Redis has nothing of the view."""
    with redis.Redis.from_url(store_url(deployment)) as client:
        assert client.delete(*client.scan_iter(f"*{view(deployment)}*")) > 400


def store_url(deployment: Deployment) -> str:
    return deployment.extra.split('url = "')[1].split('"')[0]


def tamper(deployment: Deployment) -> None:
    """One row taken away, one changed, behind the sink's back."""
    with redis.Redis.from_url(store_url(deployment)) as client:
        assert client.delete(f"{view(deployment)}@1:7") == 1
        document = json.loads(client.hget(f"{view(deployment)}@1:8", "doc") or b"")
        client.hset(f"{view(deployment)}@1:8", "doc", json.dumps({**document, "note": "wrong"}))


def test_wrong_use_is_an_error_with_exit_code_2(deployment: Deployment) -> None:
    done = deployment.run("verify", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no view 'nothing'" in done.stderr
    done = deployment.run("lag", "--watch", "--json")
    assert done.returncode == 2
    assert "cannot be combined" in done.stderr
