"""A view that is built from a snapshot of which rows were too large for Kafka."""

from __future__ import annotations

import json

import pytest

from tests.deployment import Deployment
from tests.lending import Lender

LARGE = (3, 7)


@pytest.mark.timeout(600)
def test_a_build_says_which_rows_are_missing_and_verify_brings_them(
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
        assert (said["rows"], said["dead_letters"], said["live"]) == (48, 2, True)
        assert f"{view}: 2 rows of its table are missing" in built.stderr
        assert f"headwater verify {view}" in built.stderr
        shown = json.loads(shop.run("view", "show", view, "--json").stdout)
        assert [one["dead_letters"] for one in shown["generations"]] == [2]
        assert "48, 2 missing" in shop.run("view", "show", view).stdout
        verified = shop.run("verify", view, "--json", "--timeout", "120")
        assert verified.returncode == 1, verified.stderr
        report = json.loads(verified.stdout)
        assert (report["missing"], report["extra"], report["different"]) == (2, 0, 0)
        assert sorted(one["key"]["id"] for one in report["differences"]) == list(LARGE)
        repaired = shop.run("verify", view, "--repair", "--json", "--timeout", "120")
        assert repaired.returncode == 0, repaired.stderr
        assert json.loads(repaired.stdout)["repaired"] == 2
