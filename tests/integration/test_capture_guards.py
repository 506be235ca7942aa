"""What keeps the source safe and capture alive: heartbeats, silence, WAL limits, health."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.capture.watch import Observation, Watch
from cdc.errors import RetryableError
from cdc.events.marks import Mark
from cdc.source.asking import answered, asking
from cdc.source.postgres import connect, translated
from cdc.topics import message_topic
from stack import servers
from tests.deployment import Deployment, assert_exactly_once_in_order
from tests.proxy import proxied
from tests.waiting import wait_until

BEATS = "[capture]\nheartbeat_s = 0.2\nprogress_ms = 50\n"
WITHIN_S = 15
"""What is over in two to four seconds where nothing else runs, and never if it does not end itself:
the servers that are waited for are away for longer."""
Freeze = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.extra = BEATS
    return shop


@pytest.fixture
def frozen_kafka(stack_home: Path) -> Freeze:
    """A block in which the broker keeps its connections and answers nothing."""

    @contextmanager
    def frozen() -> Iterator[None]:
        (pid,) = [line.pid for line in servers.status(stack_home) if line.name == "kafka"]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return frozen


def beat_after(shop: Deployment, moment_ms: int) -> Mark | None:
    mark = shop.newest_mark()
    return mark if (mark.heartbeat_ms or 0) > moment_ms else None


def slot(shop: Deployment, column: str) -> Any:
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        row = conn.execute(
            f"select {column} from pg_replication_slots s"
            " left join pg_stat_replication r on r.pid = s.active_pid where slot_name = %s",
            [f"headwater_{shop.name}"],
        ).fetchone()
    return row[0] if row else None


def fill(shop: Deployment, megabytes: int, first: int = 1) -> None:
    """So much WAL of captured rows, in one transaction."""
    shop.execute(
        f"insert into item select i, repeat('x', 1000) "
        f"from generate_series({first}, {first - 1 + megabytes * 1000}) i"
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_an_idle_source_gets_heartbeats_that_are_no_events_and_free_its_wal(
    shop: Deployment,
) -> None:
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        wait_until(lambda: beat_after(shop, now_ms() - 5_000), "a heartbeat in a mark")
        target = shop.wal_end()
        shop.execute("checkpoint")  # writes down the running transactions, as PostgreSQL does
        position = "(restart_lsn - '0/0'::pg_lsn)::bigint"
        wait_until(lambda: slot(shop, position) >= target, "the slot to need no older WAL")
        before = now_ms()
        wait_until(lambda: beat_after(shop, before), "the next heartbeat")
    assert shop.topic(message_topic(shop.name)) == []


def test_health_is_what_arrived_in_kafka(shop: Deployment) -> None:
    never = shop.run("health")
    assert never.returncode == 1
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        wait_until(lambda: beat_after(shop, 0), "a heartbeat")
        alive = shop.run("health", "--json")
        assert alive.returncode == 0, alive.stderr + alive.stdout
        said = json.loads(alive.stdout)
        assert said["healthy"]
        assert said["heartbeat_age_s"] < 30
        assert said["active_pid"] == slot(shop, "active_pid")
        capture.kill()
    wait_until(lambda: slot(shop, "active_pid") is None, "the server to see it")
    dead = shop.run("health", "--max-age", "0.001")
    assert dead.returncode == 1
    assert "no capture is connected" in dead.stderr
    assert "the newest heartbeat in Kafka is" in dead.stderr
    assert "not healthy" in dead.stdout


def test_a_stalled_connection_is_left_and_nothing_is_lost_or_doubled(shop: Deployment) -> None:
    shop.extra = BEATS + "feedback_s = 0.2\nsilence_s = 2\n"
    shop.init()
    with proxied(shop.dsn) as (dsn, proxy):
        through = replace(shop, dsn=dsn)
        with through.running("capture") as capture:
            shop.execute("insert into item values (1, 'a')")
            shop.captured(capture)
            proxy.stall()
            shop.execute("insert into item values (2, 'b')")
            wait_until(lambda: "silent for" in shop.log("capture"), "the silence to be noticed")
            wait_until(lambda: "heartbeat overdue" in shop.log("capture"), "to be told of beats")
            proxy.release()
            shop.execute("insert into item values (3, 'c')")
            wait_until(lambda: shop.records("item") == 3, "the rows after the stall")
            assert capture.poll() is None
    assert_exactly_once_in_order(shop.events("item"))


def test_a_question_that_is_not_answered_ends_and_can_be_asked_again(shop: Deployment) -> None:
    with proxied(shop.dsn) as (dsn, proxy), connect(dsn) as conn:
        proxy.stall()
        began = time.monotonic()
        with (
            pytest.raises(RetryableError, match=r"not answered for 0\.3 s"),
            answered(conn, 0.3),
            translated("asking"),
        ):
            conn.execute("select 1")
        assert time.monotonic() - began < WITHIN_S
    with asking(shop.dsn, 30) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


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


def caught(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_the_disk_of_a_server_on_this_machine_is_seen(shop: Deployment) -> None:
    shop.init()
    seen: list[Observation] = []
    watch = Watch(shop.dsn, f"headwater_{shop.name}", 0, seen.append)
    watch.start()
    wait_until(lambda: seen, "an observation")
    watch.close()
    assert (seen[0].disk_free or 0) > 0
    assert seen[0].retained is not None
    assert seen[0].walsender == "no process serves the slot"


@pytest.mark.parametrize("watched", [True, False])
def test_a_server_that_only_decodes_is_silent_and_not_left_for_ever(
    shop: Deployment, watched: bool
) -> None:
    beats = BEATS if watched else "[capture]\nheartbeat_s = 0\n"
    shop.extra = beats + "feedback_s = 0.2\nsilence_s = 0.5\n"
    shop.init()
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.execute("create table other (id int)")
        shop.execute("insert into other select generate_series(1, 1000000)")
        shop.captured(capture)
        assert capture.poll() is None
        assert "another capture" not in shop.log("capture")
        if watched:  # it was seen to work, so nothing had to begin again
            assert "silent for" not in shop.log("capture")


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
        assert slot(shop, "slot_name") is not None
        return
    assert "it was dropped to save the source's disk" in said
    assert slot(shop, "slot_name") is None
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
        warned = "the slot holds back WAL"
        wait_until(lambda: warned in shop.log("capture"), "the warning")
        assert "wal_warn_mb = 8" in shop.log("capture")
        assert "walsender='active, " in shop.log("capture")  # it may wait, or just now work


def test_feedback_flows_while_kafka_is_away_longer_than_the_server_waits(
    shop: Deployment, frozen_kafka: Freeze
) -> None:
    shop.extra = BEATS + "queue_mb = 8\nfeedback_s = 0.3\n"
    shop.init()
    # Long enough for a process that gets no processor for a while, and less than Kafka is away.
    impatient = replace(shop, dsn=shop.dsn + "?options=-c%20wal_sender_timeout%3D4s")
    with impatient.running("capture") as capture:
        shop.captured(capture)
        sender = slot(shop, "active_pid")
        with frozen_kafka():
            fill(shop, 30)
            patience = f"now() - interval '6 s' > '{_server_now(shop)}' and reply_time > now() - "
            patience += "interval '2 s'"
            wait_until(lambda: slot(shop, patience), "longer than the server's patience")
            assert slot(shop, "active_pid") == sender
        shop.captured(capture)
        assert slot(shop, "active_pid") == sender
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
    confirmed = slot(shop, "(confirmed_flush_lsn - '0/0'::pg_lsn)::bigint")
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
            wait_until(lambda: slot(shop, sent) >= target, "the rows to be sent")
            wait_until(lambda: "heartbeat overdue" in shop.log("capture"), "capture to wait")
            began = time.monotonic()
            capture.send_signal(signal.SIGTERM)
            assert capture.wait(120) == 1
            assert time.monotonic() - began < WITHIN_S
            assert slot(shop, "(confirmed_flush_lsn - '0/0'::pg_lsn)::bigint") < target
        assert "stopped before Kafka had acknowledged everything" in shop.log("capture")
    assert shop.newest_mark().confirmed >= confirmed
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert len(events) == 2
    assert_exactly_once_in_order(events)


def test_a_role_with_short_timeouts_streams_all_the_same(shop: Deployment) -> None:
    role = f"r_{shop.name}"
    shop.init()
    shop.execute(
        f"create role {role} superuser replication login",
        f"alter role {role} set statement_timeout = '20ms'",
        f"alter role {role} set idle_session_timeout = '20ms'",
        f"alter role {role} set idle_in_transaction_session_timeout = '20ms'",
    )
    try:
        theirs = replace(shop, dsn=shop.dsn.replace("postgres@", f"{role}@"))
        with theirs.running("capture") as capture:
            for _ in range(5):
                before = now_ms()
                wait_until(partial(beat_after, shop, before), "a heartbeat")
            shop.execute("insert into item values (1, 'a')")
            shop.captured(capture)
        assert "reconnecting" not in shop.log("capture")
        assert "no heartbeat" not in shop.log("capture")
    finally:
        shop.execute(f"drop role {role}")


def test_a_role_that_may_write_no_heartbeat_streams_and_says_so_once(shop: Deployment) -> None:
    role = f"r_{shop.name}"
    shop.init()
    shop.execute(
        f"create role {role} replication login",
        f"grant select on all tables in schema public to {role}",
        "revoke execute on function pg_logical_emit_message(bool, text, text, bool) from public",
    )
    try:
        theirs = replace(shop, dsn=shop.dsn.replace("postgres@", f"{role}@"))
        with theirs.running("capture") as capture:
            wait_until(lambda: "no heartbeats" in shop.log("capture"), "the reason")
            shop.execute("insert into item values (1, 'a')")
            shop.captured(capture)
            assert capture.poll() is None
        assert shop.log("capture").count("no heartbeats") == 1
        assert "GRANT EXECUTE" in shop.log("capture")
        assert "heartbeat overdue" not in shop.log("capture")
    finally:
        shop.execute(f"drop owned by {role}", f"drop role {role}")
