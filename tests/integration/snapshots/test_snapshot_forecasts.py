"""Snapshots that would fill the disk of a source whose slots have no limit."""

from __future__ import annotations

import json
import re

import psycopg
import pytest

from bootstrap.snapshot_source import TableSnapshots
from cdc.config import load_config
from cdc.errors import SourceError
from cdc.kafka.broker import Broker
from tests.integration.cdc.capture.test_signals import signal
from tests.support.commands.deployment import Deployment
from tests.support.commands.repetition import repeated
from tests.support.waiting import wait_until
from views.parse.definition import parse_view

VOLUME_MB = 256
FULL = re.compile(r"the snapshot takes about 2,000 s, and at .* now the WAL volume is full in \d")


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    """A source that is told to have a small WAL volume, and tables that take half an hour."""
    rows = "generate_series(1, 2000) i"
    shop.execute(
        f"insert into item select i, 'n' from {rows}",
        "create table later (id int primary key)",
        f"insert into later select i from {rows}",
        "analyze",
    )
    shop.tables = ("public.item",)
    shop.extra = f'[alerts]\nwal_volume_mb = {VOLUME_MB}\n[snapshot]\nrate = "1 rows/s"\n'
    shop.init()
    shop.tables = ("public.item", "public.later")
    return shop


def test_a_snapshot_that_would_outlive_the_disk_does_not_start(shop: Deployment) -> None:
    started = ("snapshot", "start", "public.item")
    listed = ("snapshot", "list", "--json")
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        assert conn.execute("show max_slot_wal_keep_size").fetchone() == ("-1",)

        def writes() -> None:
            conn.execute("select pg_logical_emit_message(false, 'aside', repeat('x', 500000))")

        with repeated(writes, 0.5):
            for command in (started, ("table", "add", "public.later")):
                done = shop.run(*command)
                assert done.returncode == 1, done.stdout
                assert FULL.search(" ".join(done.stderr.split())), done.stderr
                assert "--despite-forecast" in done.stderr

            capture = json.loads(shop.run("lag", "--json").stdout)["capture"]
            assert capture["slot_loss_s"] is None, "there is no limit"
            assert 0 < capture["disk_full_s"] < 1_800
            assert 0 < capture["wal_free_bytes"] == (VOLUME_MB << 20) - capture["retained_bytes"]
            shown = " ".join(shop.run("lag").stdout.split())
            assert re.search(r"the source's WAL volume has \S+ MB free, full in .* rate", shown)
            told = {one["name"]: one for one in json.loads(shop.run("status", "--json").stdout)}
            assert "not running; at this rate the WAL volume is full" in told["capture"]["said"]

            with shop.running("capture"):
                answer = signal(
                    shop, "a", "execute-snapshot", {"data-collections": ["public.item"]}
                )
            assert answer.startswith("refused: ")
            assert FULL.search(answer), answer
            assert "with `headwater snapshot start --despite-forecast`" in answer
            assert len(json.loads(shop.run(*listed).stdout)) == 1, "none but the initial one"
            published = conn.execute("select tablename from pg_publication_tables").fetchall()
            assert published == [("item",)]

            config = load_config(shop.config)
            definition = parse_view("v", "s", ("id",), "select * from item")
            with Broker(shop.bootstrap) as broker:
                of_view = TableSnapshots(config, broker, "v", lambda _: None)
                with pytest.raises(SourceError, match="the WAL volume is full") as refused:
                    of_view.start(definition)
                assert "--despite-forecast" in refused.value.hint

            for command in (started, ("table", "add", "public.later")):
                with shop.running(*command, "--despite-forecast"):
                    wait_until(lambda: '"running"' in shop.run(*listed).stdout, "it to run")
            (begun,) = [
                one
                for one in json.loads(shop.run(*listed).stdout)
                if "on_demand" in one.values() and not one.get("joining")
            ][:1]
            resumed = ("snapshot", "resume", str(begun["id"]))
            done = shop.run(*resumed)
            assert done.returncode == 1, done.stdout
            assert FULL.search(" ".join(done.stderr.split())), done.stderr
            with shop.running(*resumed, "--despite-forecast"):
                wait_until(lambda: '"running"' in shop.run(*listed).stdout, "it to go on")
    found = json.loads(shop.run(*listed).stdout)
    assert len(found) == 3
