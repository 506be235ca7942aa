"""What capture knows of Kafka after a crash, a cut connection or a change made behind its back."""

from __future__ import annotations

import os
import signal
import time

import psycopg
from kafka import KafkaAdminClient

from cdc.source.postgres import connect
from cdc.source.slot import slot_state
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment, assert_exactly_once_in_order
from tests.support.waiting import wait_until

ONE_MARK = "[capture]\nprogress_ms = 600000"
"""After the first progress mark none is due: what is published stays unconfirmed."""


def sender(shop: Deployment) -> tuple[int, int] | None:
    """The WAL sender's process and how far it has sent; None while nobody streams."""
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        return conn.execute(
            "select r.pid, (r.sent_lsn - '0/0'::pg_lsn)::bigint from pg_stat_replication r"
            " join pg_replication_slots s on s.active_pid = r.pid"
            " where s.slot_name = %s and r.sent_lsn is not null",
            [f"headwater_{shop.name}"],
        ).fetchone()


def streamed(shop: Deployment, table: str, ids: set[int]) -> bool:
    return ids <= {event.key["id"] for event in shop.events(table) if event.key}


def cut(shop: Deployment) -> None:
    """End the connection, and wait until the next one has sent everything again."""
    ended, _ = wait_until(lambda: sender(shop), "capture to stream") or (0, 0)
    target = shop.wal_end()
    shop.execute(f"select pg_terminate_backend({ended})")

    def sent_again() -> bool:
        now = sender(shop)
        return now is not None and now[0] != ended and now[1] >= target

    wait_until(sent_again, "the next session to get as far")


def ended(shop: Deployment) -> None:
    """End the connection, and wait for the next."""
    pid, _ = wait_until(lambda: sender(shop), "capture to stream") or (0, 0)
    shop.execute(f"select pg_terminate_backend({pid})")
    wait_until(lambda: (sender(shop) or (pid, 0))[0] != pid, "the next session")


def add_partitions(shop: Deployment, table: str, total: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=shop.bootstrap)
    admin.create_partitions({table_topic(shop.name, "public", table): total})
    admin.close()


def interrupted_init(shop: Deployment) -> None:
    """``init --again``, killed when its slot is there and the rows are not."""
    slot = f"headwater_{shop.name}"
    with connect(shop.dsn) as conn:
        before = slot_state(conn, slot)
        assert before is not None
        old = before.confirmed_flush
        with shop.running("init", "--again") as init:

            def made() -> bool:
                now = slot_state(conn, slot)
                return now is not None and now.confirmed_flush not in (None, old)

            wait_until(made, "init to make its slot")
            init.kill()


def test_rows_of_an_open_transaction_that_a_mark_counts_are_not_published_again(
    shop: Deployment,
) -> None:
    shop.extra = "[capture]\nprogress_ms = 500"
    shop.execute("create table bulk (id int primary key)")
    shop.init()
    with shop.running("capture") as capture, psycopg.connect(shop.dsn) as conn:
        conn.execute("insert into item select i, 'x' from generate_series(1, 100) i")
        conn.execute("insert into bulk select generate_series(1, 400000)")
        shop.captured(capture)
        shop.execute("insert into item values (1000, 'before')")
        conn.commit()
        topic = table_topic(shop.name, "public", "item")

        def counted() -> bool:
            return sum(shop.newest_mark().offsets[topic].values()) == 101

        wait_until(counted, "a mark that counts the rows of the transaction")
        capture.kill()
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == 101


def test_a_connection_cut_twice_publishes_nothing_twice(shop: Deployment) -> None:
    shop.extra = ONE_MARK
    shop.init()
    with shop.running("capture"):
        shop.execute("insert into item values (0, 'first')")
        wait_until(lambda: streamed(shop, "item", {0}), "the first row")
        shop.execute(
            "do $$ begin for i in 1..3000 loop"
            " insert into item values (i, 'x'); commit; end loop; end $$"
        )
        wait_until(lambda: streamed(shop, "item", {3000}), "the last row")
        cut(shop)
        cut(shop)
        shop.execute("insert into item values (5000, 'last')")
        wait_until(lambda: streamed(shop, "item", {5000}), "a row after the cuts")
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == 3002


def test_two_cuts_far_apart_are_not_one_long_failure(shop: Deployment) -> None:
    shop.extra = ONE_MARK + "\nreconnect_s = 0.5"
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'first')")
        wait_until(lambda: streamed(shop, "item", {0}), "the first row")
        ended(shop)
        held = time.monotonic() + 1
        wait_until(lambda: time.monotonic() > held, "a session longer than reconnect_s")
        ended(shop)
        shop.execute("insert into item values (1, 'last')")
        wait_until(lambda: streamed(shop, "item", {1}), "a row after the cuts")
        assert capture.poll() is None


def test_a_table_that_joined_since_the_last_mark_is_not_published_twice(shop: Deployment) -> None:
    shop.extra = ONE_MARK
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'first')")
        wait_until(lambda: streamed(shop, "item", {0}), "the first row")
        shop.execute(
            "create table extra (id int primary key)",
            f"alter publication headwater_{shop.name} add table extra",
            "insert into extra select generate_series(1, 20)",
        )
        wait_until(lambda: shop.records("extra") == 20, "its rows")
        capture.kill()
    assert '"table": "public.extra"' in shop.log("capture")
    with shop.running("capture"):
        shop.execute("insert into extra values (21)")
        wait_until(lambda: streamed(shop, "extra", {21}), "a row after the restart")
    events = shop.events("extra")
    assert_exactly_once_in_order(events)
    assert len(events) == 21


def test_partitions_added_while_capture_is_down_are_refused(shop: Deployment) -> None:
    shop.extra = ONE_MARK
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item select i, 'x' from generate_series(1, 20) i")
        wait_until(lambda: shop.records("item") == 20, "the rows")
        capture.kill()
    add_partitions(shop, "item", 5)
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "5 partitions" in refused.stderr
    assert "headwater init --again" in refused.stderr
    again = shop.run("init", "--again")
    assert again.returncode == 0, again.stderr
    shop.extra = ""
    with shop.running("capture") as capture:
        shop.captured(capture)


def test_partitions_added_while_capture_runs_stop_it(shop: Deployment) -> None:
    soon = ("topic.metadata.refresh.interval.ms", "statistics.interval.ms")
    shop.extra = "[kafka.producer]\n" + "".join(f'"{name}" = 200\n' for name in soon)
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'first')")
        shop.captured(capture)
        add_partitions(shop, "item", 5)

        def stopped() -> bool:
            with psycopg.connect(shop.dsn, autocommit=True) as conn:
                conn.execute("insert into item select coalesce(max(id), 0) + 1 from item")
            return capture.poll() is not None

        wait_until(stopped, "capture to notice")
        assert capture.returncode == 1
        assert "partitions" in shop.log("capture")


def test_a_capture_that_was_away_does_not_go_on_over_a_snapshot_that_is_not_whole(
    shop: Deployment,
) -> None:
    shop.execute("insert into item select i, 'x' from generate_series(1, 300000) i")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'streamed')")
        shop.captured(capture)
        ended, _ = wait_until(lambda: sender(shop), "capture to stream") or (0, 0)
        os.killpg(capture.pid, signal.SIGSTOP)
        shop.execute(f"select pg_terminate_backend({ended})")
        wait_until(lambda: sender(shop) is None, "the slot to be free")
        interrupted_init(shop)
        os.killpg(capture.pid, signal.SIGCONT)
        wait_until(lambda: capture.poll() is not None, "capture to refuse the slot")
        assert capture.returncode == 1
        assert "init --again" in shop.log("capture")
    refused = shop.run("capture")
    assert refused.returncode == 1
    assert "not initialised" in refused.stderr


ADDED = "alter publication {} add table item"
DRIFT = [
    ("alter publication {} drop table item", "public.item is not in publication", ADDED),
    (
        "drop table item; create table item (id int primary key, name text)",
        "public.item is not in publication",
        ADDED,
    ),
    (
        "alter publication {} set (publish = 'insert')",
        "has to publish all operations",
        "alter publication {} set (publish = 'insert, update, delete, truncate')",
    ),
    ("drop publication {}", "there is no publication", ""),
]
"""What lets changes go, what capture says of it, and what undoes it."""


def test_a_publication_that_lets_changes_go_is_refused(shop: Deployment) -> None:
    shop.init()
    for drift, said, undone in DRIFT:
        shop.execute(drift.format(f"headwater_{shop.name}"))
        refused = shop.run("capture")
        assert refused.returncode == 1, drift
        assert said in refused.stderr
        assert "headwater init --again" in refused.stderr
        shop.execute(*([undone.format(f"headwater_{shop.name}")] if undone else []))


def test_a_table_that_the_configuration_chooses_and_nobody_published_is_named(
    shop: Deployment,
) -> None:
    shop.init()
    shop.execute("create table late (id int primary key)", "create table gone (id int)")
    with shop.running("capture") as capture:
        shop.captured(capture)
    assert '"table": "public.late"' in shop.log("capture")
