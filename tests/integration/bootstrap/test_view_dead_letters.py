"""A view that is built over rows that were too large for Kafka."""

from __future__ import annotations

import json

import pytest

from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender

LARGE = (3, 7)


@pytest.mark.timeout(600)
def test_a_build_has_the_rows_that_kafka_has_not(
    deployment: Deployment, redis_server: str, lender: Lender
) -> None:
    shop, view = deployment, f"{deployment.name}_items"
    shop.jvm = lender
    shop.execute(
        "create table item (id int primary key, name text)",
        f"insert into item select i, case when i in {LARGE} then repeat(md5(i::text), 40000)"
        " else 'small' end from generate_series(1, 50) i",
    )
    shop.extra = (
        '[capture]\noversized = "dead_letter"\n'
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[views.{view}]\nstore = "cache"\nkey = ["id"]\nsql = "select id, name from item"\n'
        f'[apply]\nstate = "{shop.home / "state"}"\n'
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        built = shop.run("view", "create", view, "--json")
        assert built.returncode == 0, built.stderr
        (said,) = json.loads(built.stdout)
        assert (said["rows"], said["live"]) == (50, True)
        with shop.running("apply"):
            shop.execute("update item set name = 'smaller' where id < 5")
            verified = shop.run("verify", view, "--json", "--timeout", "120")
            assert verified.returncode == 0, verified.stdout + verified.stderr
            shop.execute("update item set name = repeat(md5('x'), 40000) where id = 9")
            verified = shop.run("verify", view, "--json", "--timeout", "120")
            assert verified.returncode == 1, verified.stderr
            report = json.loads(verified.stdout)
            assert [one["key"]["id"] for one in report["differences"]] == [9]
