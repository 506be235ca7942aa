"""What capture knows of Kafka after a crash, a cut connection or a change made behind its back."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from cdc.broker import Broker, last_record
from cdc.marks import Mark, decode_mark
from cdc.topics import progress_topic, table_topic
from tests.deployment import Deployment, assert_exactly_once_in_order
from tests.waiting import wait_until

ONE_MARK = "[capture]\nprogress_ms = 600000"
"""After the first progress mark none is due: what is published stays unconfirmed."""


@pytest.fixture
def shop(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    deployment = Deployment(tmp_path, source_name, database, kafka)
    deployment.execute("create table item (id int primary key, name text)")
    return deployment


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def newest_mark(shop: Deployment) -> Mark:
    topic = progress_topic(shop.name)
    with Broker(shop.bootstrap) as broker:
        record = last_record(broker, topic)
    assert record is not None
    assert record.value is not None
    return decode_mark(record.value, topic)


def sender(shop: Deployment) -> tuple[int, int] | None:
    """The WAL sender's process and how far it has sent; None while nobody streams."""
    with psycopg.connect(shop.dsn, autocommit=True) as conn:
        return conn.execute(
            "select r.pid, (r.sent_lsn - '0/0'::pg_lsn)::bigint from pg_stat_replication r"
            " join pg_replication_slots s on s.active_pid = r.pid where s.slot_name = %s",
            [f"headwater_{shop.name}"],
        ).fetchone()


def streamed(shop: Deployment, table: str, ids: set[int]) -> bool:
    return ids <= {event.key["id"] for event in shop.events(table) if event.key}


def cut(shop: Deployment) -> None:
    """End the connection, and wait until the next one has sent everything again."""
    ended = wait_until(lambda: sender(shop), "capture to stream")[0]
    target = shop.wal_end()
    shop.execute(f"select pg_terminate_backend({ended})")

    def sent_again() -> bool:
        now = sender(shop)
        return now is not None and now[0] != ended and now[1] >= target

    wait_until(sent_again, "the next session to get as far")


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
            return sum(newest_mark(shop).offsets[topic].values()) == 101

        wait_until(counted, "a mark that counts the rows of the transaction")
        kill(capture)
    with shop.running("capture") as capture:
        shop.captured(capture)
    events = shop.events("item")
    assert_exactly_once_in_order(events)
    assert len(events) == 101


def test_a_connection_cut_twice_publishes_nothing_twice(shop: Deployment) -> None:
    shop.extra = ONE_MARK
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into item values (0, 'first')")
        shop.captured(capture)
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
