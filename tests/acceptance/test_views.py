"""``headwater view`` on the whole path, as a user calls it, killed where it hurts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands.deployment import Deployment
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until

TABLE = "create table orders (id bigint primary key, total numeric(12,2), note text)"
ROWS = "insert into orders select i, i * 1.1, 'note ' || i from generate_series(1, 40000) i"
SQL = "select id, total, note from orders where total > 1.2"
OTHER = "select id, total * 2 as twice, upper(note) as note from orders"


@pytest.fixture
def deployment(
    tmp_path: Path, source_name: str, database: str, kafka: str, redis_server: str
) -> Deployment:
    extra = f"""
[stores.cache]
kind = "redis"
url = "{redis_server}"
[apply]
state = "{tmp_path}/state"
master = "local[2]"
spark = {{ "spark.driver.memory" = "1g" }}
[views.{source_name}_orders]
store = "cache"
key = ["id"]
sql = "{SQL}"
"""
    deployment = Deployment(tmp_path, source_name, database, kafka, extra=extra)
    deployment.execute(TABLE, ROWS)
    done = deployment.run("init", "--no-snapshot")  # Kafka has nothing of what is there
    assert done.returncode == 0, done.stderr
    return deployment


def done(deployment: Deployment, *arguments: str) -> str:
    """A command that must succeed; what it prints."""
    run = deployment.run(*arguments, timeout_s=900)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def listed(deployment: Deployment) -> dict[str, Any]:
    (found,) = json.loads(done(deployment, "view", "list", "--json"))
    assert isinstance(found, dict)
    return found


def killed_while_loading(deployment: Deployment, view: str, apply: Child) -> None:
    """A rebuild whose `headwater apply` is killed -9 when it fills the store."""
    with deployment.running("view", "rebuild", view) as process:

        def reached() -> bool:
            assert process.poll() is None, deployment.log("view")
            return f"{view}: loading " in deployment.log("view")

        wait_until(reached, "the rebuild to load", 600)
        apply.kill()
        assert process.wait(60) == 1
    assert "has ended" in deployment.log("view")


@pytest.mark.timeout(1800)  # Spark is started three times
def test_a_view_is_created_rebuilt_through_kills_and_rolled_back(deployment: Deployment) -> None:
    view = f"{deployment.name}_orders"
    with deployment.running("capture") as capture:
        said = done(deployment, "view", "create", view)
        assert f"{view}: generation 1 is live: 39,999 rows, in " in said
        assert listed(deployment)["live"] == 1
        declared = deployment.extra
        deployment.extra = declared.replace(SQL, OTHER)
        again = deployment.run("view", "create", view)
        deployment.extra = declared
        assert again.returncode == 2
        assert "headwater view rebuild" in again.stderr

        with deployment.running("apply") as apply:
            deployment.execute(
                "update orders set note = 'new' where id <= 50",
                "delete from orders where id % 9 = 0",
            )
            assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "240")
            deployment.extra = deployment.extra.replace(SQL, OTHER)
            killed_while_loading(deployment, view, apply)
            assert listed(deployment)["live"] == 1
        with deployment.running("apply"):
            deployment.execute("update orders set total = total + 1 where id <= 20")
            done(deployment, "wait", view, "--timeout", "240")
            said = done(deployment, "view", "rebuild", view)
            number = listed(deployment)["live"]
            assert f"{view}: generation {number} is live" in said
            deployment.execute("insert into orders values (50000, 5, 'after')")
            deployment.captured(capture)
            assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "240")

            assert f"generation 1 is live again, instead of {number}" in done(
                deployment, "view", "rollback", view
            )
            assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "240")
            said = done(deployment, "replay", view, "--from", "2020-01-01")
            assert f"{view}: generation 1: " in said
            assert f"{view}: holds " in done(deployment, "wait", view, "--timeout", "240")
            assert "equal at LSN" in done(deployment, "verify", view, "--timeout", "240")
        found = listed(deployment)
        assert (found["live"], found["retired"], found["building"]) == (1, [number], None)
        assert SQL.split(" from")[0].lower() in found["generations"][0]["sql"].lower()
        assert "generation 1 dropped" in done(deployment, "view", "drop", view)
        assert listed(deployment)["generations"] == []
        assert capture.poll() is None
