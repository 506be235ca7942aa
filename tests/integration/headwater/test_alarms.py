"""Faults that are real, and what a real Prometheus says of them with the rules that we ship.

A minute of the rules lasts a second here (``headwater explain --rules --minute 1``). The time that
counts is from the moment that the condition holds to that at which Prometheus sees it; then an
alarm waits for as long as its rule says. HW003 looks back ten minutes, and PostgreSQL moves what it
watches each quarter of a minute: a minute of that rule lasts three seconds. The ten minutes in
which a snapshot may stand still are ten seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import redis

from stack import servers
from stack.guardian import Guardian
from stack.ports import free_port
from tests.support.commands.alarmed_shop import (
    HEARTBEAT_S,
    RESTLESS,
    RESTLESS_MINUTE_S,
    SECRET,
    SEEN_S,
    SNAPSHOT_STANDS_S,
    STALLED_S,
    Shop,
    receiving,
    rules,
)
from tests.support.commands.deployment import Deployment
from tests.support.commands.repetition import repeated
from tests.support.commands.scraping import scrape
from tests.support.commands.short_waits import waiting
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.prometheus import Prometheus
from tests.support.servers.proxy import proxied
from tests.support.servers.skewed_clock import skewed_clock
from tests.support.waiting import wait_until

TABLES = (
    "create schema aside",
    "create table aside.old (id int)",
    "create table orders (id int primary key, paid numeric(8,2) not null)",
    "insert into orders select i, i from generate_series(1, 500) i",
    "create table items (id int primary key, note text, filler text)",
    "insert into items select i, 'n' || i from generate_series(1, 500) i",
)
VIEWS = {
    "share": "select id, 100 / paid as share from orders",
    "notes": "select id, note from items",
}
SOON: Final = {"cdc.lag.states:STALLED_S": STALLED_S, "jobs.sinks.redis.client:TIMEOUT_S": 5.0}
"""Of apply: it hears of a store that is back when it has given up waiting for an answer."""
SNAPSHOT_EVERY_S: Final = 15.0
"""PostgreSQL notes what transactions run, and only then ``restart_lsn`` can move."""


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    kafka: str,
    redis_server: str,
    lender: Lender,
    guardian: Guardian,
) -> Iterator[Shop]:
    home: Path = tmp_path_factory.mktemp("alarmed")
    guardian.purge(home)
    limits = {
        "fsync": "off",
        "max_slot_wal_keep_size": "512MB",
        "min_wal_size": "32MB",
        "logical_decoding_work_mem": "64kB",
    }
    received: list[dict[str, Any]] = []
    with ExitStack() as stack:
        stack.callback(servers.purge, home / "source")
        clock = stack.enter_context(skewed_clock())
        with clock.for_processes_started():
            source = servers.start(home / "source", ["postgres"], {"postgres": limits}).postgres_dsn
        store_url, store = stack.enter_context(proxied(redis_server))
        hook = stack.enter_context(receiving(received))
        (home / "secret").write_text(SECRET, encoding="utf-8")
        (home / "secret").chmod(0o600)
        ports = {"capture": free_port(set())}
        ports["apply"] = free_port(set(ports.values()))
        deployment = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka, jvm=lender)
        declared = "\n".join(
            f'[views.{deployment.name}_{view}]\nstore = "cache"\nkey = ["id"]\nsql = "{sql}"'
            for view, sql in VIEWS.items()
        )
        deployment.extra = (
            'topic = { "retention.ms" = "30000" }\n'
            f'[stores.cache]\nkind = "redis"\nurl = "{store_url}"\n'
            f"[metrics]\ncapture = {ports['capture']}\napply = {ports['apply']}\n"
            f'[alerts]\nlag_s = 5\nwal_volume_mb = 512\nwebhook = "{hook}"\n'
            f'secret_file = "{home / "secret"}"\n'
            f"[capture]\nheartbeat_s = {HEARTBEAT_S}\n"
            f'[apply]\nengine = "database"\nstate = "{home / "state"}"\n{declared}\n'
        )
        deployment.execute(*TABLES)
        deployment.init()
        capture = stack.enter_context(deployment.running("capture"))
        deployment.captured(capture)
        deployment.environment = waiting(SOON)
        apply = stack.enter_context(deployment.running("apply", "--json"))
        deployment.environment = {}
        client: Any = redis.Redis.from_url(redis_server)
        for view in VIEWS:
            live = partial(client.get, f"{deployment.name}_{view}@live")
            wait_until(live, f"apply to build {view}", 180)
        old = stack.enter_context(psycopg.connect(source))
        old.execute("insert into aside.old values (1)")
        old_s = time.time()
        prometheus = Prometheus(home / "prometheus", rules(), ports.values())
        stack.enter_context(closing(prometheus))
        processes = {"capture": capture, "apply": apply}
        yield Shop(
            deployment, prometheus, store, ports, processes, received, client, clock, old, old_s
        )


@pytest.mark.timeout(300)
def test_a_store_that_stalls_and_a_source_that_spills(shop: Shop) -> None:
    shop.quiet()

    def spills() -> None:
        """In little WAL: that a slot is forecast to be lost ends late."""
        shop.deployment.execute("update items set filler = repeat('x', 400) where id <= 250")

    began = time.time()
    with repeated(spills, every_s=3):
        shop.store.stall()
        try:
            shop.deployment.execute("update orders set paid = paid + 1 where id = 7")
            committed = time.time()
            shop.fires("HW007", committed + 5)
            shop.fires("HW014", began + 10)
            apply = shop.ports["apply"]
            used = "headwater_view_retention_used_ratio", shop.deployment.name, shop.view("share")
            wait_until(
                lambda: shop.state("apply", "headwater_view_state", "share") == "stalled",
                "the view to have stalled",
            )
            shop.fires("HW008", time.time())
            wait_until(lambda: scrape(apply)[used] > 0.5, "half of the retention to be used")
            shop.fires("HW009", time.time())
        finally:
            shop.store.release()
    shop.quiet()


@pytest.mark.timeout(300)
def test_a_row_that_cannot_be_computed_and_a_column_that_is_gone(shop: Shop) -> None:
    shop.quiet()
    shop.deployment.execute("update orders set paid = 0 where id = 9")
    began = time.time()
    shop.fires("HW010", began)
    shop.deployment.execute("update orders set paid = 9 where id = 9")
    done = shop.deployment.run("dead-letters", "retry", shop.view("share"))
    assert done.returncode == 0, done.stderr
    wait_until(lambda: "HW010" not in shop.alarmed(), "the key to be applied")
    shop.deployment.execute("alter table items drop column note", "insert into items values (900)")
    began = time.time()
    shop.fires("HW011", began)
    (alert,) = shop.prometheus.alerts()["HW011"]
    assert alert.labels["view"] == shop.view("notes")


@pytest.mark.timeout(300)
def test_an_old_transaction_and_a_clock_that_is_ahead(shop: Shop) -> None:
    shop.fires(RESTLESS, shop.old_s + 10 * RESTLESS_MINUTE_S + SNAPSHOT_EVERY_S)
    shop.old.close()
    shop.clock.ahead_s(3)
    shop.fires("HW016", time.time())
    shop.clock.ahead_s(0)
    wait_until(lambda: "HW016" not in shop.alarmed(), "the clocks to be equal")
    wait_until(lambda: RESTLESS not in shop.prometheus.alerts(), "restart_lsn to move")


@pytest.mark.timeout(300)
def test_a_row_of_the_store_that_differs_from_the_source(shop: Shop) -> None:
    shop.old.close()
    view, declared = shop.view("share"), shop.deployment.extra
    shop.deployment.extra += '[verify]\nevery = "1s"\n'
    shop.deployment.write()
    differing = "headwater_view_differences", shop.deployment.name, view
    try:
        row = f"{shop.redis.get(f'{view}@live').decode()}:5"
        right = shop.redis.hget(row, "doc")
        shop.redis.hset(row, "doc", json.dumps(json.loads(right) | {"share": "1"}))
        found = partial(scrape, shop.ports["apply"])
        wait_until(lambda: found().get(differing, 0) > 0, "the row to be found", 150)
        shop.fires("HW015", time.time())
        shop.redis.hset(row, "doc", right)
        wait_until(lambda: "HW015" not in shop.alarmed(), "the row to be equal", 150)
    finally:
        shop.deployment.extra = declared
        shop.deployment.write()


@pytest.mark.timeout(300)
def test_a_snapshot_that_would_outlive_the_slot_does_not_start(shop: Shop) -> None:
    shop.old.close()
    deployment = shop.deployment
    deployment.execute("analyze orders")
    slow = ("snapshot", "start", "public.orders", "--rate", "1 rows/s")
    listed = ("snapshot", "list", "--json")

    def writes() -> None:
        deployment.execute("insert into items values (1000)", "delete from items where id = 1000")
        deployment.execute("select pg_switch_wal()")

    with repeated(writes):
        done = deployment.run(*slow)
    assert done.returncode == 1
    assert "the snapshot takes about 500 s, and at the rate" in done.stderr
    assert "--despite-forecast" in done.stderr
    assert deployment.run(*listed).stdout.count('"on_demand"') == 0
    with deployment.running(*slow, "--despite-forecast"):
        wait_until(lambda: '"running"' in deployment.run(*listed).stdout, "it to run")
        shop.fires("HW012", time.time() + SNAPSHOT_STANDS_S)
    found = json.loads(deployment.run(*listed).stdout)
    (taken,) = [one for one in found if "on_demand" in one.values()]
    done = deployment.run("snapshot", "cancel", str(taken["id"]))
    assert done.returncode == 0, done.stderr
    wait_until(lambda: "HW012" not in shop.alarmed(), "no snapshot to stand")
    done = deployment.run(*slow[:3], "--rate", "none")
    assert done.returncode == 0, "without a rate nobody knows how long it takes"


@contextmanager
def followed(shop: Shop) -> Iterator[None]:
    """What the pages say of a lost slot, a view that has stopped, and an apply that is gone."""
    deployment = shop.deployment
    done = deployment.run("init", "--again")
    assert done.returncode == 0, done.stderr
    deployment.extra = deployment.extra.replace(VIEWS["notes"], "select id, filler from items")
    deployment.write()
    with deployment.running("capture"), deployment.running("apply", "--json"):
        done = deployment.run("view", "rebuild", shop.view("notes"))
        assert done.returncode == 0, done.stderr
        yield


@pytest.mark.timeout(480)
def test_a_capture_that_does_nothing_and_one_that_is_killed(shop: Shop) -> None:
    shop.old.close()
    with shop.frozen("capture") as began:
        shop.fires("HW001", began + 3 * HEARTBEAT_S)
        with psycopg.connect(shop.deployment.dsn, autocommit=True) as conn:
            for _ in range(10):
                conn.execute("insert into orders select max(id) + 1, 1 from orders")
                conn.execute("select pg_switch_wal()")
        retained = "headwater_slot_retained_bytes", shop.deployment.name
        wait_until(lambda: scrape(shop.ports["apply"])[retained] > 128 << 20, "WAL to be retained")
        held = time.time()
        shop.fires("HW006", held)
        shop.fires("HW004", held)
    with repeated(partial(shop.deployment.execute, "checkpoint")):  # notes what transactions run
        shop.recovers("HW001", "HW004", "HW006")
    shop.processes["capture"].kill()
    killed = time.time()
    shop.fires("HW002", killed)
    with shop.deployment.running("capture") as again:
        shop.recovers("HW002")
        again.kill()
    shop.deployment.execute(f"select pg_drop_replication_slot('headwater_{shop.deployment.name}')")
    dropped = time.time()
    shop.fires("HW005", dropped)

    def told() -> list[dict[str, Any]]:
        return [one["data"] for one in shop.received if one["data"]["code"] == "HW005"]

    (message,) = wait_until(told, "the message", SEEN_S)
    assert (message["process"], message["source"]) == ("apply", shop.deployment.name)
    assert "HW011" in {one["data"]["code"] for one in shop.received}, "it has held for 30 s"
    shop.processes["apply"].kill()
    shop.fires("HW013", time.time())
    with followed(shop):
        shop.recovers("HW005", "HW011", "HW013")
        done = shop.deployment.run("verify", shop.view("share"), shop.view("notes"))
        assert done.returncode == 0, done.stdout + done.stderr
    print("\nseconds from condition to pending:", json.dumps(shop.times, default=float))
