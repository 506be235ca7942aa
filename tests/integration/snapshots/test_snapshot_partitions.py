"""Partitions in a snapshot: read together, locked briefly, and through their root."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from cdc.config import Source
from cdc.source.catalog import captured_tables
from cdc.source.postgres import connect
from cdc.source.types import load_types
from migrations.runner import migrate
from snapshots.plan import Bounds, plan_table
from tests.snapshots.shop import Shop
from tests.support.waiting import wait_until


@pytest.fixture
def shop(database: str, source_name: str) -> Iterator[Shop]:
    with connect(database) as conn:
        migrate(conn)
        yield Shop(database, conn, Source(name=source_name, dsn=database, tables=("public.*",)))


def partitioned(shop: Shop, numbers: range) -> None:
    """Partitions of ``public.root`` with one row each."""
    for n in numbers:
        shop.run(
            f"create table public.p{n} partition of public.root for values in ({n})",
            f"insert into public.root values ({n})",
        )


def alone(shop: Shop) -> bool:
    """Whether no other session of the database is left: each counts what it did when it ends."""
    others = shop.conn.execute(
        "select from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')"
    )
    return others.fetchone() is None


def transactions(shop: Shop) -> int:
    """How many there were in this database: each statement outside of one is one."""
    wait_until(lambda: alone(shop), "the snapshot's sessions to be gone")
    shop.run("select pg_stat_force_next_flush()")
    row = shop.conn.execute(
        "select xact_commit + xact_rollback from pg_stat_database"
        " where datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_small_partitions_are_read_together_once_and_again(shop: Shop) -> None:
    shop.run("create table public.root (id int primary key) partition by list (id)")
    partitioned(shop, range(16))
    before = transactions(shop)
    assert shop.snapshot() == {"public.root": 16}
    few = transactions(shop) - before
    partitioned(shop, range(16, 64))
    shop.run("update headwater.snapshot set status = 'running'")
    before = transactions(shop)
    assert shop.snapshot() == {"public.root": 64}  # 48 are new, of 16 what was not seen is read
    assert transactions(shop) - before < few + 48
    assert sorted(row["id"] for row in shop.rows("root")) == list(range(64))


def test_whoever_reads_partitions_together_holds_none_while_it_waits_for_another(
    shop: Shop,
) -> None:
    shop.run("create table public.root (id int primary key) partition by list (id)")
    partitioned(shop, range(3))

    class Migrated(Shop):
        def send(self, *of: Any) -> None:
            if not self.events:  # the description: the slot is made, and nothing is read
                migration.execute("lock table public.p1")
            super().send(*of)

    def waits() -> bool:
        return watch.execute(waiting).fetchone() is not None

    waiting = (
        "select from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    with (
        psycopg.connect(shop.dsn) as migration,
        connect(shop.dsn) as watch,
        ThreadPoolExecutor(1) as thread,
    ):
        done = thread.submit(Migrated(shop.dsn, shop.conn, shop.source).snapshot)
        wait_until(waits, "the snapshot to wait for the migration")
        migration.execute("lock table public.p0")
        migration.execute("lock table public.p2")
        migration.commit()
        assert done.result(30) == {"public.root": 3}


def test_planning_keeps_no_lock_on_partitions(shop: Shop) -> None:
    shop.run("create table public.root (id int primary key) partition by list (id)")
    partitioned(shop, range(40))
    with shop.conn.transaction():
        (table,) = captured_tables(shop.conn, shop.source)
        types = load_types(shop.conn)
        bounds = Bounds("id < 50")
        plan = plan_table(shop.conn, table, types, shop.source, "", bounds)
        held = shop.conn.execute(
            "select c.relname from pg_locks l join pg_class c on c.oid = l.relation"
            " where l.pid = pg_backend_pid() and c.relispartition"
        ).fetchall()
    assert len(plan.leaves) == 40
    assert len(held) <= 2  # the first one, and its index, for which --where is tried


def test_partitions_come_through_their_root_and_children_as_themselves(shop: Shop) -> None:
    shop.run(
        "create table public.root (id int primary key) partition by range (id)",
        "create table public.p1 partition of public.root for values from (0) to (10)",
        "create table public.p2 partition of public.root for values from (10) to (20)",
        "insert into public.root values (5), (15)",
        "create table public.parent (id int primary key)",
        "create table public.child (primary key (id)) inherits (public.parent)",
        "insert into public.parent values (1)",
        "insert into public.child values (2)",
    )
    counts = shop.snapshot()
    assert counts == {"public.child": 1, "public.parent": 1, "public.root": 2}
    assert shop.rows("parent") == [{"id": 1}]
    assert shop.rows("child") == [{"id": 2}]
    assert sorted(row["id"] for row in shop.rows("root")) == [5, 15]
