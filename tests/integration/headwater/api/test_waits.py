"""Waiting for a view over HTTP, with a real apply."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import psycopg

from cdc.lsn import format_lsn
from tests.support.commands import view_shop
from tests.support.serve.served import Served
from tests.support.servers.lent_jvm import Lender


def test_a_client_reads_its_own_writes(
    tmp_path: Path, postgres: str, kafka: str, redis_server: str, lender: Lender
) -> None:
    """200 with the change in the view; 504 with what is missing; and no slower than the view."""
    views = {"items": "select id, name, n from item"}
    with view_shop.opened(tmp_path, postgres, kafka, redis_server, lender, views) as shop:
        name, path = shop.name("items"), f"/views/{shop.name('items')}/wait"
        served = Served(shop.deployment)
        with shop.applied(), served.running():
            shop.equal("items", views["items"])
            took_s = []
            with psycopg.connect(shop.deployment.dsn, autocommit=True) as conn:
                for i in range(20):
                    conn.execute("update item set n = %s where id = 7", [1_000 + i])
                    (lsn,) = (
                        conn.execute("select pg_current_wal_insert_lsn()::text").fetchone() or ()
                    )
                    began = time.monotonic()
                    answer = served.get(path, lsn=lsn, timeout="30")
                    took_s.append(time.monotonic() - began)
                    assert answer.status == 200, answer.body
                    assert answer.document["reached"]
                    assert shop.shown("items")[7]["n"] == 1_000 + i
            print("wait over HTTP:", statistics.median(took_s), max(took_s))
            ahead = served.get(path, lsn=format_lsn(shop.deployment.wal_end() + (1 << 30)))
            assert (ahead.status, ahead.headers["content-type"]) == (
                400,
                "application/problem+json",
            )
            (view,) = served.get("/views").document["views"]
            assert (view["view"], view["kind"], view["key"]) == (name, "redis", ["id"])
        with served.running():
            shop.deployment.execute("update item set n = 0 where id = 7")
            late = served.get(path, timeout="2")
            assert late.status in (409, 504)
            assert late.document["reached"] is False
            assert late.document["detail"]
