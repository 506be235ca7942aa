"""DDL that overtakes a snapshot: it comes when a chunk is about to be read, or renames its file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from cdc.config import Source
from cdc.source.postgres import connect
from migrations.runner import migrate
from tests.snapshots.shop import Shop
from tests.support.waiting import wait_until


@dataclass
class Overtaken(Shop):
    """``overtake`` runs once, when some rows of ``public.<of>`` are with Kafka."""

    of: str = "t"
    overtake: Callable[[], None] | None = None

    def flush(self) -> None:
        if self.overtake is not None and self.rows(self.of):
            overtake, self.overtake = self.overtake, None
            overtake()


@pytest.fixture
def shop(database: str, source_name: str) -> Iterator[Overtaken]:
    with connect(database) as conn:
        migrate(conn)
        tables = ("public.a", "public.t")
        source = Source(name=source_name, dsn=database, tables=tables)
        yield Overtaken(database, conn, source, chunk_mb=0.02)


@contextmanager
def altering(shop: Shop, statement: str) -> Iterator[None]:
    """A transaction that has altered a table and commits when somebody waits for it."""
    waits = (
        "select 1 from pg_locks l join pg_stat_activity a on a.pid = l.pid"
        " where not l.granted and a.datname = current_database()"
    )

    def commit() -> None:
        with connect(shop.dsn) as observer:
            wait_until(lambda: observer.execute(waits).fetchone(), "the snapshot to wait")
        other.execute("commit")

    with connect(shop.dsn) as other:
        other.execute("begin")
        other.execute(statement.encode())
        thread = threading.Thread(target=commit)
        thread.start()
        yield
        thread.join(90)


def test_the_last_row_before_a_table_that_is_altered_is_not_lost(shop: Overtaken) -> None:
    """It is held back until the next table's first row says that it is a last one."""
    shop.run(
        "create table public.a (id int primary key, v text)",
        "create table public.t (id int primary key, v text, w text)",
        "insert into public.a select i, 'a' from generate_series(1, 10) i",
        "insert into public.t select i, repeat('t', 500), 'w' from generate_series(1, 500) i",
    )
    shop.of = "a"
    held = altering(shop, "alter table public.t drop column w")
    shop.overtake = lambda: held.__enter__()
    shop.snapshot()
    held.__exit__(None, None, None)
    assert {row["id"] for row in shop.rows("a")} == set(range(1, 11))
    assert {row["id"] for row in shop.rows("t") if row} == set(range(1, 501))


def test_a_partition_whose_name_another_one_took_is_read_itself(shop: Overtaken) -> None:
    shop.run(
        "create table public.a (id int primary key)",
        "create table public.t (id int primary key, v text) partition by range (id)",
        "create table public.t_now partition of public.t for values from (0) to (1000)",
        "insert into public.t select i, repeat('v', 500) from generate_series(0, 999) i",
    )
    shop.overtake = lambda: shop.run(
        "alter table public.t_now rename to t_then",
        "create table public.t_now partition of public.t for values from (1000) to (2000)",
    )
    shop.snapshot()
    assert sorted({row["id"] for row in shop.rows("t")}) == list(range(1000))
