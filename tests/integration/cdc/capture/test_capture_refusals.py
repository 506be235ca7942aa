"""What capture refuses to start on: each fault is named, with the command that leads out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any

import psycopg
import pytest

from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.topics import message_topic, progress_topic, schemas_topic, table_topic
from tests.support.commands.deployment import Deployment
from tests.support.commands.short_waits import waiting
from tests.support.waiting import wait_until

AGAIN = "headwater init --again"
SLOT_WAIT = "cdc.capture.loop:SLOT_WAIT_S", "cdc.capture.reconnection:SLOT_WAIT_S"


@pytest.fixture
def shop(shop: Deployment) -> Deployment:
    shop.init()
    return shop


def rewrite_mark(shop: Deployment, mark: Mark) -> None:
    """It is Kafka's newest now."""
    topic, value = progress_topic(shop.name), mark.encode(0)
    producer = BulkProducer(shop.bootstrap)
    producer.send(topic, [shop.name.encode()], [value], time_ns() // 1_000_000)
    producer.flush()


def refused(shop: Deployment, *said: str) -> None:
    done = shop.run("capture")
    assert done.returncode == 1, done.stderr
    for part in said:
        assert part in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


HISTORIES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"system_id": "42"}, ("of cluster 42, but source.dsn leads to", "Check source.dsn")),
    ({"database": "shop2"}, ("from database shop2 of cluster", "Check source.dsn")),
    ({"timeline": 7}, ("which is not an ancestor of it", AGAIN)),
    ({"confirmed": 1 << 60}, ("restored from an older backup", AGAIN)),
    ({"confirmed": 1}, ("ahead of Kafka at 0/1", AGAIN)),
]


def test_another_history_than_kafka_s_is_refused(shop: Deployment) -> None:
    right = shop.newest_mark()
    for changes, said in HISTORIES:
        rewrite_mark(shop, right._replace(**changes))
        refused(shop, *said)


def test_a_change_that_the_server_cannot_send_ends_capture_at_once(shop: Deployment) -> None:
    publication = f"headwater_{shop.name}"
    shop.execute(
        f"alter publication {publication} set table item where (10 / (id - 5) > -100)",
        "insert into item values (5, 'a')",
    )
    refused(
        shop,
        "cannot send the change at LSN",
        f"slot {publication}",
        "division by zero",
        "22012",
        AGAIN,
    )
    shop.execute(f"alter publication {publication} set table item")
    assert shop.run("init", "--again").returncode == 0
    with shop.running("capture") as capture:
        shop.captured(capture)


def test_each_topic_that_is_gone_has_a_way_out(shop: Deployment) -> None:
    shop.execute("insert into item values (1, 'a')")
    with shop.running("capture") as capture:
        shop.captured(capture)

    def delete(topic: str) -> None:
        with Broker(shop.bootstrap) as broker:
            broker.delete_topics([topic])
            wait_until(lambda: not broker.partitions([topic]), f"{topic} to be gone")

    delete(message_topic(shop.name))
    refused(
        shop, f"topic {message_topic(shop.name)} was deleted; it held no record", "headwater init"
    )
    done = shop.run("init")
    assert done.returncode == 0, done.stderr
    assert "topics made that were gone" in done.stderr
    with shop.running("capture") as capture:
        shop.captured(capture)
    for topic in (
        table_topic(shop.name, "public", "item"), schemas_topic(shop.name),
        progress_topic(shop.name),
    ):  # fmt: skip
        delete(topic)
        if topic != schemas_topic(shop.name):  # capture itself writes no more than it knows
            refused(shop, topic)
        done = shop.run("init")
        assert (done.returncode, "init --again" in done.stderr) == (1, True), done.stderr
        assert topic in done.stderr
        assert shop.run("init", "--again").returncode == 0
        with shop.running("capture") as capture:
            shop.captured(capture)


def test_a_slot_that_is_gone_somebody_s_or_new_is_refused(shop: Deployment) -> None:
    slot = f"headwater_{shop.name}"
    shop.execute(f"select pg_drop_replication_slot('{slot}')")
    refused(shop, f"slot {slot} is gone", AGAIN)
    shop.execute(f"select pg_create_physical_replication_slot('{slot}')")
    refused(shop, "belongs to physical replication", "Set source.slot")
    shop.execute(
        f"select pg_drop_replication_slot('{slot}')",
        "insert into item values (1, 'a')",
        f"select pg_create_logical_replication_slot('{slot}', 'pgoutput')",
    )
    refused(shop, "it was recreated or advanced", AGAIN)


@contextmanager
def server_setting(shop: Deployment, name: str, value: str) -> Iterator[None]:
    """In force for the whole server, until the end of the block."""
    shop.execute(f"alter system set {name} = '{value}'", "select pg_reload_conf()")
    try:
        yield
    finally:
        shop.execute(f"alter system reset {name}", "select pg_reload_conf()")


def reason(shop: Deployment) -> str | None:
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        conn.execute("checkpoint")
        row = conn.execute(
            "select invalidation_reason from pg_replication_slots where slot_name = %s",
            [f"headwater_{shop.name}"],
        ).fetchone()
    return row[0] if row else None


def test_a_slot_that_lost_its_wal_is_refused_and_a_new_snapshot_mends_it(shop: Deployment) -> None:
    shop.execute("insert into item values (1, 'a')")
    with server_setting(shop, "max_slot_wal_keep_size", "1MB"):

        def lost() -> bool:
            shop.execute("update item set name = name || 'x'", "select pg_switch_wal()")
            return reason(shop) == "wal_removed"

        wait_until(lost, "the slot to lose its WAL")
    refused(shop, "is lost (wal_removed)", AGAIN)
    again = shop.run("init", "--again")
    assert again.returncode == 0, again.stderr
    with shop.running("capture") as capture:
        shop.captured(capture)


def test_a_slot_that_nobody_read_for_too_long_is_refused(shop: Deployment) -> None:
    with server_setting(shop, "idle_replication_slot_timeout", "1s"):
        wait_until(lambda: reason(shop) == "idle_timeout", "the slot to be given up")
    refused(shop, "is lost (idle_timeout)", AGAIN)


def test_a_slot_dropped_under_a_running_capture_ends_it(shop: Deployment) -> None:
    with shop.running("capture") as capture, psycopg.connect(shop.dsn, autocommit=True) as conn:
        shop.captured(capture)

        def dropped() -> bool:
            conn.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots"
                " where slot_name = %s and active_pid is not null",
                [f"headwater_{shop.name}"],
            )
            try:
                conn.execute("select pg_drop_replication_slot(%s)", [f"headwater_{shop.name}"])
            except psycopg.Error:
                return False
            return True

        wait_until(dropped, "the slot to be dropped between two sessions")
        wait_until(lambda: capture.poll() is not None, "capture to end")
        assert capture.returncode == 1
    assert AGAIN in shop.log("capture")


def test_a_second_capture_says_at_once_what_it_waits_for(shop: Deployment) -> None:
    with shop.running("capture") as capture:
        shop.captured(capture)
        shop.environment = waiting(dict.fromkeys(SLOT_WAIT, 2.0))
        second = shop.run("capture")
        assert second.returncode == 1
        lines = [one for one in second.stderr.splitlines() if "slot_in_use" in one]
        (line,) = lines
        assert '"up_to_s": 2.0' in line
        assert "is active for PID" in line
        assert "reconnecting" not in second.stderr
        assert "Stop one of them: another capture is running" in second.stderr
        assert capture.poll() is None
