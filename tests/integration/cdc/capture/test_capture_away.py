"""Capture whose server does not answer, or cannot keep up: bounded, alive, quick to stop."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from stack.ports import free_port
from tests.integration.conftest import Freeze
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order
from tests.support.commands.scraping import probe
from tests.support.servers.proxy import Proxy, proxied
from tests.support.waiting import wait_until

BEATS = "[capture]\nheartbeat_s = 0.2\nprogress_ms = 50\n"
WITHIN_S = 60
"""What is over in two to four seconds where nothing else runs, and never if it does not end itself:
the servers that are waited for are away for longer."""


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.extra = BEATS
    return shop


def fill(shop: Deployment, megabytes: int, first: int = 1) -> None:
    """So much WAL of captured rows, in one transaction."""
    shop.execute(
        f"insert into item select i, repeat('x', 1000) "
        f"from generate_series({first}, {first - 1 + megabytes * 1000}) i"
    )


def test_a_stop_does_not_wait_for_a_server_that_does_not_answer(shop: Deployment) -> None:
    shop.init()
    with proxied(shop.dsn) as (dsn, proxy):
        proxy.stall()
        with replace(shop, dsn=dsn).running("capture") as capture:
            wait_until(lambda: caught(capture.pid, signal.SIGTERM), "capture to listen")
            began = time.monotonic()
            capture.send_signal(signal.SIGTERM)
            assert capture.wait(120) in (0, 1)
            assert time.monotonic() - began < WITHIN_S
    assert "Traceback" not in shop.log("capture")


@pytest.mark.parametrize("server", ["PostgreSQL", "Kafka"])
def test_a_capture_that_starts_before_a_server_waits_for_it(
    shop: Deployment, postgres: str, kafka: str, server: str
) -> None:
    shop.init()
    port, where = free_port(set()), {"PostgreSQL": postgres, "Kafka": f"//{kafka}"}[server]
    target = urlsplit(where).port
    assert target is not None
    if server == "PostgreSQL":
        away = replace(shop, dsn=shop.dsn.replace(f":{target}/", f":{port}/"))
    else:
        away = replace(shop, bootstrap=f"127.0.0.1:{port}")
    away.extra = f"{BEATS}reconnect_s = 0.2\n"
    refused = away.run("capture")
    assert refused.returncode == 1
    assert refused.stderr.count('"reconnecting"') >= 2
    metrics = free_port({port})
    away.extra = f'{BEATS}[metrics]\ncapture = "127.0.0.1:{metrics}"\n'
    with away.running("capture") as capture:
        wait_until(lambda: "reconnecting" in away.log("capture"), "capture to find nobody there")
        assert probe(metrics, "livez")[0] == HTTPStatus.OK
        status, told = probe(metrics, "readyz")
        assert (status, server in told) == (HTTPStatus.SERVICE_UNAVAILABLE, True), told
        with closing(Proxy(port, target)):
            shop.execute("insert into item values (1, 'x')")
            away.captured(capture)
    assert [event.value and event.value["op"] for event in shop.events("item")] == ["c"]


def test_a_capture_that_waits_for_a_server_can_be_stopped(shop: Deployment) -> None:
    shop.init()
    with replace(shop, bootstrap=f"127.0.0.1:{free_port(set())}").running("capture") as capture:
        wait_until(lambda: "reconnecting" in shop.log("capture"), "capture to find nobody there")
        capture.send_signal(signal.SIGTERM)
        assert capture.wait(120) == 0


def caught(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("action", ["stop", "drop"])
def test_too_much_wal_held_back_by_kafka_s_absence_ends_capture_as_configured(
    shop: Deployment, frozen_kafka: Freeze, action: str
) -> None:
    shop.extra = BEATS + f'queue_mb = 8\nwal_limit_mb = 20\nwal_limit_action = "{action}"\n'
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        with frozen_kafka():
            fill(shop, 40)
            wait_until(lambda: capture.poll() is not None, "capture to end")
        assert capture.returncode == 1
    said = shop.log("capture")
    assert "more than capture.wal_limit_mb = 20" in said
    assert "headwater init --again" in said
    if action == "stop":
        assert shop.slot("slot_name") is not None
        return
    assert "it was dropped to protect the source's disk" in said
    assert shop.slot("slot_name") is None
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "is gone" in refused.stderr
    assert "headwater init --again" in refused.stderr


def test_wal_held_back_by_an_old_transaction_is_warned_of(shop: Deployment) -> None:
    shop.extra = BEATS + "wal_warn_mb = 8\n"
    shop.init()
    with shop.running("capture") as capture, psycopg.connect(shop.dsn) as old:
        shop.captured(capture)  # a look before it streams would find no process at the slot
        old.execute("select pg_current_xact_id()")
        fill(shop, 20)
        shop.captured(capture)  # confirmed, and yet the WAL is kept
        warned = "slot_retains_wal"
        wait_until(lambda: warned in shop.log("capture"), "the warning")
        assert "wal_warn_mb = 8" in shop.log("capture")
        assert '"walsender": "active, ' in shop.log("capture")  # it may wait, or just now work


def test_feedback_flows_while_kafka_is_away_longer_than_the_server_waits(
    shop: Deployment, frozen_kafka: Freeze
) -> None:
    shop.extra = BEATS + "queue_mb = 8\nfeedback_s = 0.3\n"
    shop.init()
    # Long enough for a process that gets no processor for a while, and less than Kafka is away.
    impatient = replace(shop, dsn=shop.dsn + "?options=-c%20wal_sender_timeout%3D4s")
    with impatient.running("capture") as capture:
        shop.captured(capture)
        sender = shop.slot("active_pid")
        with frozen_kafka():
            fill(shop, 30)
            patience = f"now() - interval '6 s' > '{_server_now(shop)}' and reply_time > now() - "
            patience += "interval '2 s'"
            wait_until(lambda: shop.slot(patience), "longer than the server's patience")
            assert shop.slot("active_pid") == sender
        shop.captured(capture)
        assert shop.slot("active_pid") == sender
    events = shop.events("item")
    assert len(events) == 30_000
    assert_exactly_once_in_order(events)


def _server_now(shop: Deployment) -> str:
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        row = conn.execute("select now()::text").fetchone()
    assert row is not None
    return str(row[0])


def test_a_stop_under_load_is_quick_and_leaves_nothing_unconfirmed(shop: Deployment) -> None:
    shop.extra = BEATS + "queue_mb = 8\n"  # what may be in flight, for a slow machine's sake
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        for first in (1, 20_001, 40_001):
            fill(shop, 20, first)
        wait_until(lambda: shop.records("item"), "the stream to run")
        began = time.monotonic()
        capture.send_signal(signal.SIGTERM)
        assert capture.wait(120) == 0, shop.log("capture")
        assert time.monotonic() - began < WITHIN_S
    confirmed = shop.slot("(confirmed_flush_lsn - '0/0'::pg_lsn)::bigint")
    assert shop.newest_mark().confirmed == confirmed
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert len(events) == 60_000
    assert_exactly_once_in_order(events)


def test_a_stop_without_kafka_is_quick_and_says_what_was_not_acknowledged(
    shop: Deployment, frozen_kafka: Freeze
) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        confirmed = shop.newest_mark().confirmed
        with frozen_kafka():
            sent = "(sent_lsn - '0/0'::pg_lsn)::bigint"
            shop.execute("insert into item values (1, 'a'), (2, 'b')")
            target = shop.wal_end()
            wait_until(lambda: shop.slot(sent) >= target, "the rows to be sent")
            wait_until(lambda: "kafka_waited_for" in shop.log("capture"), "Kafka to be missed")
            wait_until(lambda: "heartbeat_overdue" in shop.log("capture"), "capture to wait")
            began = time.monotonic()
            capture.send_signal(signal.SIGTERM)
            assert capture.wait(120) == 1
            assert time.monotonic() - began < WITHIN_S
            assert shop.slot("(confirmed_flush_lsn - '0/0'::pg_lsn)::bigint") < target
        assert "stopped before Kafka had acknowledged everything" in shop.log("capture")
    assert shop.newest_mark().confirmed >= confirmed
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert len(events) == 2
    assert_exactly_once_in_order(events)
