"""Reading one's own writes, over the real source, capture and Kafka; the view's group is ours."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

import headwater
from cdc.errors import ViewError
from cdc.kafka.broker import Broker
from cdc.lsn import format_lsn, parse_lsn
from cdc.topics import table_topic, view_group
from jobs.generations.last_error import noted
from jobs.generations.view_state import view_directory
from stack.ports import free_port
from tests.support.commands.deployment import Deployment

LONG_S = 120


@pytest.fixture
def view(shop: Deployment) -> Iterator[str]:
    """Of table ``item``, captured; nobody applies it but the test. Heartbeats are far between."""
    view = f"{shop.name}_items"
    shop.extra = f"""
[capture]
heartbeat_s = 3600
[stores.cache]
kind = "redis"
url = "redis://localhost:1/0"
[apply]
state = "{shop.home}/state"
[views.{view}]
store = "cache"
key = ["id"]
sql = "select id, name from item"
[views.{view}_other]
store = "cache"
key = ["id"]
sql = "select id from other"
"""
    shop.execute("create table other (id int)", "alter table other replica identity full")
    shop.tables = ("public.item",)
    shop.init()
    with shop.running("capture"):
        yield view


def applied(shop: Deployment, view: str) -> None:
    """The view has all that Kafka has."""
    topic = table_topic(shop.name, "public", "item")
    with Broker(shop.bootstrap) as broker:
        broker.commit_group(view_group(view), broker.end_offsets([topic]))


def test_a_view_is_waited_for_exactly(shop: Deployment, view: str) -> None:
    applied(shop, view)
    with headwater.Views(shop.config) as views, psycopg.connect(shop.dsn) as conn:
        conn.execute("insert into item values (1, 'a')")
        with pytest.raises(headwater.UsageError, match="not committed yet"):
            headwater.current_lsn(conn)
        before = format_lsn(shop.wal_end())
        conn.commit()
        lsn = headwater.current_lsn(conn)
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

        shop.captured()
        with pytest.raises(headwater.NotReachedError) as late:
            views.wait(view, lsn=lsn, timeout_s=0.5)
        lag = views.lag(view)[view]
        assert (lag.state, lag.behind_records, lag.fresh) == ("fresh", 1, True), "for a second"
        assert f"lacks 1 record of what was committed below {lsn}. " in str(late.value)
        assert "headwater apply" in str(late.value)

        done = shop.run("wait", view, "--lsn", lsn, "--timeout", "0.5", "--json")
        assert done.returncode == 3
        assert f"view {view} has not been applied on this machine; waiting" in done.stderr
        (said,) = json.loads(done.stdout)["views"]
        assert said["lacking_records"] == 1
        assert parse_lsn(before) <= parse_lsn(said["lsn"]) < parse_lsn(lsn)

        applied(shop, view)
        reached = views.wait(view, lsn=lsn, timeout_s=LONG_S)
        assert (format_lsn(reached.lsn), reached.parked) == (lsn, {})
    done = shop.run("wait", view)
    assert done.returncode == 0, done.stderr
    there, away = shop.bootstrap, f"127.0.0.1:{free_port(set())}"
    shop.bootstrap = away
    gone = shop.run("wait", view, "--timeout", "1.5", "--json")
    shop.bootstrap = there
    assert (gone.returncode, json.loads(gone.stdout)["reached"]) == (3, False)
    line = f"cannot connect to Kafka at {away}: Connection refused; waiting for it"
    assert gone.stderr.count(line) == 1, gone.stderr
    assert f"{view}: holds what was committed below " in done.stdout


def test_what_no_view_is_made_of_counts_as_well(shop: Deployment, view: str) -> None:
    """Also WAL that nobody flushes: of a transaction that goes on, of an asynchronous commit."""
    shop.captured()
    applied(shop, view)
    with (
        headwater.Views(shop.config) as views,
        psycopg.connect(shop.dsn, autocommit=True) as conn,
        psycopg.connect(shop.dsn) as other,
    ):
        conn.execute("set synchronous_commit to off")
        for number in range(5):
            conn.execute("insert into other values (1)")
            other.execute(f"insert into other values ({number})")  # never committed
            began = time.monotonic()
            views.wait(view, lsn=headwater.current_lsn(conn), timeout_s=LONG_S)
            print(f"waited {time.monotonic() - began:.3f} s")
        other.rollback()


def test_a_view_that_a_fault_has_ended_is_told_at_once(shop: Deployment, view: str) -> None:
    applied(shop, view)
    shop.execute("insert into item values (1, 'a')")
    shop.captured()
    directory = view_directory(f"{shop.home}/state", shop.name, view)
    directory.mkdir(parents=True)
    with suppress(ViewError), noted(directory, view, unless=lambda: False):
        raise ViewError(f"view {view}: the disk is on fire")
    began = time.monotonic()
    for verb in (["wait"], ["verify"]):
        done = shop.run(*verb, view, "--timeout", "500")
        assert done.returncode == 1
        assert f"no process applies it: view {view}: the disk is on fire" in done.stderr
    assert time.monotonic() - began < 300
    shown = json.loads(shop.run("view", "show", view, "--json").stdout)
    assert shown["stopped"]["fault"] == f"view {view}: the disk is on fire"
    assert "the disk is on fire. Correct the cause, then" in shop.run("view", "show", view).stdout
    behind = shop.run("lag", view, "--json")
    assert behind.returncode == 1, behind.stderr
    lag = json.loads(behind.stdout)
    assert [(one["view"], one["kind"], one["fault"]) for one in lag["faults"]] == [
        (view, "stopped", f"view {view}: the disk is on fire")
    ]
    assert "blocked" in shop.run("lag", view).stdout
    assert ", stopped" in shop.run("view", "list").stdout
    checked = json.loads(shop.run("check", "--json").stdout)["findings"]
    told = [(one["level"], one["message"]) for one in checked if one["check"] == f"view {view}"]
    assert [level for level, _ in told] == ["ok", "error"]
    assert told[1][1].endswith(f"no process applies it: view {view}: the disk is on fire")
    unwell = shop.run("health", "--views")
    assert unwell.returncode == 1
    assert f"view {view}: the disk is on fire" in unwell.stderr
    assert shop.run("health").returncode == 0


def test_what_cannot_be_waited_for_is_told_at_once(shop: Deployment, view: str) -> None:
    began = time.monotonic()
    future = format_lsn(shop.wal_end() + (1 << 40))
    done = shop.run("wait", view, "--lsn", future, "--timeout", "500")
    assert done.returncode == 2
    assert f"LSN {future} is ahead of the source, which is at " in done.stderr
    assert time.monotonic() - began < 300
    assert shop.run("wait", view, "--lsn", future, "--timeout", "0.3", "--ahead").returncode == 3
    assert "'0.5' is not an LSN" in shop.run("wait", view, "--lsn", "0.5").stderr
    done = shop.run("wait", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no view 'nothing'\n  hint: Choose a declared view: {view}" in done.stderr
    done = shop.run("wait", f"{view}_other", "--timeout", "500")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"capture does not publish {shop.name}.public.other\n" in done.stderr
