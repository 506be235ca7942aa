"""What keeps the source safe and capture alive: heartbeats, silence, health, roles."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from cdc.capture.source_probe import Observation, Watch
from cdc.errors import RetryableError
from cdc.events.marks import Mark
from cdc.protocol.messages import RelationColumn, RelationMessage, Values
from cdc.source.bounded_query import answered, asking
from cdc.source.errors import translated
from cdc.source.postgres import connect
from cdc.source.relation_completion import Describer
from cdc.topics import message_topic
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order
from tests.support.servers.proxy import proxied
from tests.support.waiting import wait_until

BEATS = "[capture]\nheartbeat_s = 0.2\nprogress_ms = 50\n"


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.extra = BEATS
    return shop


def beat_after(shop: Deployment, moment_ms: int) -> Mark | None:
    mark = shop.newest_mark()
    return mark if (mark.heartbeat_ms or 0) > moment_ms else None


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
        wait_until(lambda: shop.slot(position) >= target, "the slot to need no older WAL")
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
        assert said["active_pid"] == shop.slot("active_pid")
        capture.kill()
    wait_until(lambda: shop.slot("active_pid") is None, "the server to see it")
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
            wait_until(lambda: "sent nothing for" in shop.log("capture"), "silence to be told")
            wait_until(lambda: "heartbeat_overdue" in shop.log("capture"), "to be told of beats")
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
        assert time.monotonic() - began < 60  # the proxy would never let it through
    with asking(shop.dsn, 30) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_rows_are_looked_up_again_after_their_session_was_ended(shop: Deployment) -> None:
    shop.execute("insert into item values (1, 'a')")
    with connect(shop.dsn) as conn:
        found = conn.execute("select 'public.item'::regclass::oid").fetchone()
        assert found is not None
        columns = RelationColumn("id", 23, -1, True), RelationColumn("name", 25, -1, False)
        message = RelationMessage(found[0], "public", "item", "d", columns)
        describer = Describer(shop.dsn, {}, lambda _: None, "none")
        relation, key = describer.resolve(message), cast("Values", [b"1"])
        before = describer.lookup(relation, key)
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    with pytest.raises(RetryableError, match=r"reading a row of public\.item: terminating"):
        describer.lookup(relation, key)
    assert describer.lookup(relation, key) == before is not None
    describer.close()


def test_a_question_on_a_lost_connection_can_be_asked_again(shop: Deployment) -> None:
    with connect(shop.dsn) as conn:
        with pytest.raises(RetryableError, match="terminating"), translated("ending"):
            conn.execute("select pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(RetryableError, match="asking PostgreSQL"), answered(conn):
            pytest.fail("it is lost")


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
            assert "has sent nothing for" not in shop.log("capture")


DEFAULTS = {
    "statement_timeout": "20ms",
    "transaction_timeout": "20ms",
    "idle_session_timeout": "20ms",
    "idle_in_transaction_session_timeout": "20ms",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "quote_all_identifiers": "on",
    "search_path": "nowhere",
    "array_nulls": "off",
    "transform_null_equals": "on",
}


def test_what_a_role_has_for_defaults_changes_nothing(shop: Deployment) -> None:
    role = f"r_{shop.name}"
    shop.execute(
        f"create role {role} superuser replication login",
        *(f"alter role {role} set {name} = '{value}'" for name, value in DEFAULTS.items()),
    )
    try:
        theirs = replace(shop, dsn=shop.dsn.replace("postgres@", f"{role}@"))
        theirs.init()
        with theirs.running("capture") as capture:
            for _ in range(5):
                before = now_ms()
                wait_until(partial(beat_after, shop, before), "a heartbeat")
            shop.execute("insert into item values (1, 'a')")
            shop.captured(capture)
        assert "reconnecting" not in shop.log("capture")
        assert "heartbeats_off" not in shop.log("capture")
        assert "heartbeat_failed" not in shop.log("capture")
    finally:
        shop.execute(f"reassign owned by {role} to current_user", f"drop role {role}")


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
            wait_until(lambda: "heartbeats_off" in shop.log("capture"), "the reason")
            shop.execute("insert into item values (1, 'a')")
            shop.captured(capture)
            assert capture.poll() is None
        assert shop.log("capture").count("heartbeats_off") == 1
        assert "GRANT EXECUTE" in shop.log("capture")
        assert "heartbeat_overdue" not in shop.log("capture")
    finally:
        shop.execute(f"drop owned by {role}", f"drop role {role}")
