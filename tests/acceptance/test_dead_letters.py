"""``headwater dead-letters`` on the whole path, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender

LEFT_OUT = "delete from item where id = 7"


@pytest.fixture
def shop(
    tmp_path: Path, source_name: str, database: str, kafka: str, redis_server: str, lender: Lender
) -> Deployment:
    extra = f"""
[stores.cache]
kind = "redis"
url = "{redis_server}"
[apply]
state = "{tmp_path}/state"
[views.{source_name}_items]
store = "cache"
key = ["id"]
sql = "select id, day, name from item"
[views.{source_name}_shares]
store = "cache"
key = ["id"]
sql = "select id, 100 / (id - 7) as share from item where id < 50"
"""
    made = Deployment(tmp_path, source_name, database, kafka, extra=extra, jvm=lender)
    made.execute(
        "create table item (id int primary key, day date, name text)",
        "insert into item select i, date '2026-01-01' + i, 'item' from generate_series(1, 20) i",
        "insert into item values (99, 'infinity', 'secret')",
    )
    made.init()
    return made


@pytest.mark.timeout(900)
def test_from_a_poison_row_to_a_view_that_is_equal(shop: Deployment) -> None:
    """A value that the store cannot hold, and a row that cannot be computed: there when the views
    are built, and later."""
    view, shares = f"{shop.name}_items", f"{shop.name}_shares"
    _apply(shop)
    key, divided = _json(shop, "dead-letters", "list", "--json")
    assert (key["view"], json.loads(key["key"])) == (view, {"id": "99"})
    assert "column 'day': a value that date cannot hold" in key["cause"]
    assert "secret" not in json.dumps(key)
    assert (divided["view"], json.loads(divided["key"])) == (shares, {"id": "7"})
    assert "22012" in divided["cause"]
    assert "id=99" in shop.run("dead-letters", "list").stdout
    assert key["id"] in shop.run("dead-letters", "list", view).stdout
    shown = _json(shop, "dead-letters", "show", key["id"], "--json")
    assert shown["value"] == {"id": "99"}
    lag = shop.run("lag", "--json")
    assert lag.returncode == 1, "nobody applies the views now: " + lag.stderr
    behind = json.loads(lag.stdout)["views"]
    for name in (view, shares):
        assert sum(one["parked_keys"] for one in behind if one["view"] == name) == 1
    assert "1 key parked" in shop.run("lag").stdout

    with shop.running("capture"), shop.running("apply"):
        shop.execute("insert into item values (22, '2026-01-01', 'good')")
        assert shop.run("wait", view, shares, "--timeout", "300").returncode == 0
        done = shop.run("verify", view, "--json", "--timeout", "120")
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        assert (done.returncode, report["parked"], report["missing"]) == (1, 1, 0), done.stderr
        assert [one["kind"] for one in report["differences"]] == ["parked"]
        assert _json(shop, "view", "show", view, "--json")["parked_keys"] == 1
        refused = shop.run("dead-letters", "retry", view)
        assert (refused.returncode, "id=99 stays parked" in refused.stdout) == (1, True)
        shop.execute(
            "update item set name = 'still no day' where id = 99",
            "insert into item values (21, '-infinity', 'another')",
        )
        assert shop.run("wait", view, "--timeout", "300").returncode == 0
        parked = [one["view"] for one in _json(shop, "dead-letters", "list", "--json")]
        assert parked == [view, view, shares]
        shop.execute("update item set day = '2026-06-01' where id in (21, 99)", LEFT_OUT)
        for name in (view, shares):
            verified = shop.run("verify", name, "--json", "--timeout", "120")
            assert verified.returncode == 0, verified.stdout
    assert "no dead letters" in shop.run("dead-letters", "list").stderr
    assert "no dead letters" in shop.run("dead-letters", "discard", view, "--all", "--yes").stderr
    assert shop.run("dead-letters", "discard", view).returncode == 2


def _apply(shop: Deployment) -> None:
    done = shop.run("apply", "--available-now")
    assert done.returncode == 0, done.stderr


def _json(shop: Deployment, *arguments: str) -> Any:
    done = shop.run(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
