"""``headwater dlq`` on the whole path, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import Deployment
from tests.lending import Lender


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
    view = f"{shop.name}_items"
    _apply(shop)
    (found,) = _json(shop, "dlq", "list", "--json")
    assert (found["view"], found["keys"], found["events"]) == (view, 1, 1)
    (key,) = found["parked"]
    assert key["key"] == '{"id":99}'
    assert "column 'day': a value that date cannot hold" in key["cause"]
    assert "secret" not in json.dumps(found)
    assert "id=99" in shop.run("dlq", "list").stdout
    (event,) = key["events"]
    assert event["event"] in shop.run("dlq", "list", view, "--events").stdout
    shown = _json(shop, "dlq", "show", view, event["event"], "--json")
    assert shown["value"]["after"]["name"] == "secret"
    assert sum(item["parked_keys"] for item in _json(shop, "lag", "--json")["views"]) == 1
    assert "1 key parked" in shop.run("lag").stdout
    assert _json(shop, "view", "show", view, "--json")["generations"][0]["parked_keys"] == 1

    with shop.running("capture") as capture:
        shop.captured(capture)
        done = shop.run("verify", view, "--json", "--timeout", "120")
        report = json.loads(done.stdout)
        assert (done.returncode, report["parked"], report["missing"]) == (1, 1, 0), done.stderr
        assert [one["kind"] for one in report["differences"]] == ["parked"]
        refused = shop.run("dlq", "retry", view)
        assert (refused.returncode, "id=99 stays parked" in refused.stdout) == (1, True)
        shop.execute("update item set day = '2026-06-01' where id = 99")
        shop.captured(capture)
        _apply(shop)
        assert _json(shop, "dlq", "list", "--json")[0]["events"] == 2
        done = shop.run("dlq", "retry", view, "--key", "id=99")
        assert done.returncode == 0, done.stderr
        assert f"{view}: 2 events of 1 keys applied" in done.stdout
        verified = shop.run("verify", view, "--json", "--timeout", "120")
        assert verified.returncode == 0, verified.stdout
    assert "no dead letters" in shop.run("dlq", "list").stderr
    assert "no dead letters" in shop.run("dlq", "discard", view, "--all").stderr
    assert shop.run("dlq", "discard", view).returncode == 2


def _apply(shop: Deployment) -> None:
    done = shop.run("apply", "--available-now")
    assert done.returncode == 0, done.stderr


def _json(shop: Deployment, *arguments: str) -> Any:
    done = shop.run(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
