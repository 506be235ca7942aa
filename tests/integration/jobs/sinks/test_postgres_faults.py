"""What a PostgreSQL store can refuse, and the one line that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from cdc.config import Postgres
from cdc.errors import RetryableError, SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks.documents import key_text
from jobs.sinks.postgres.client import Database
from jobs.sinks.row_errors import RowsRefusedError
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, batch_rows, upsert
from tests.support.servers.stores import LSN, OpenFeed, items

ITEMS = items()


@pytest.fixture
def base(store_database: str) -> Postgres:
    return Postgres(kind="postgres", dsn=store_database)


@pytest.fixture
def conn(store_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(store_database, autocommit=True) as conn:
        yield conn


def constrained(feed: Feed, conn: psycopg.Connection[Any]) -> None:
    """Let the store refuse some names, as an owner may."""
    table = f'public."{feed.view}@1"'
    conn.execute(f"alter table {table} add constraint named check (name not like 'bad%')".encode())


def test_rows_that_are_refused_are_told_one_by_one_and_the_others_written(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    constrained(feed, conn)
    changes = [upsert(LSN, i, id=i, name="bad" if i in (3, 40) else "good") for i in range(60)]
    with pytest.raises(
        RowsRefusedError, match=r"refused 2 rows.* 16/B374D848/3.*23514.*named"
    ) as error:
        feed.apply(*changes)
    refused = error.value.rows
    assert [(one.id, one.position) for one in refused] == [
        ("3", Position(LSN, 3)),
        ("40", Position(LSN, 40)),
    ]
    assert "bad" not in str(error.value)
    assert len(feed.rows()) == 58
    rows = batch_rows(feed.spark, ITEMS, changes)
    parked = rows.where(key_text(ITEMS, ("id",)).isin([one.id for one in refused]))
    assert sorted(row.id for row in parked.collect()) == [3, 40]


def test_rows_refused_in_executors_are_told_together(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    constrained(feed, conn)
    rows = batch_rows(feed.spark, ITEMS, [upsert(LSN, 1, id=0, name="a")]).drop("id", "name")
    rows = feed.spark.range(8_000, numPartitions=2).crossJoin(rows)
    name = F.when(F.col("id").isin(7, 7_777), "bad").otherwise("good")
    rows = rows.select("id", name.alias("name"), *rows.columns[1:])
    with pytest.raises(RowsRefusedError, match="refused") as error:
        feed.sink.apply(rows, feed.batch(1, 8_000))
    assert sorted(str(one.id) for one in error.value.rows) == ["7", "7777"]
    assert len(feed.rows()) == 7_998


def test_when_every_row_is_refused_it_is_not_about_rows(
    base: Postgres,
    open_feed: OpenFeed,
    conn: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.sinks.postgres.sink.MOST_REFUSED", 5)
    feed = open_feed(base)
    constrained(feed, conn)
    with pytest.raises(SinkError, match="refused more than 5 rows") as error:
        feed.apply(*(upsert(LSN, i, id=i, name="bad") for i in range(20)))
    assert not isinstance(error.value, RowsRefusedError)


@pytest.mark.parametrize("suffix", ["", "@1"])
def test_a_table_of_somebody_else_is_left_alone(
    base: Postgres, source_name: str, conn: psycopg.Connection[Any], suffix: str
) -> None:
    conn.execute(f'create table "{source_name}{suffix}" (id int)'.encode())
    sink = open_sink(base, source_name, None)
    with pytest.raises(ViewError, match=r"already has a table or view|not belong to this view"):
        sink.prepare(ITEMS, ("id",))
    generations = open_generations(base, source_name, None)
    with pytest.raises(ViewError, match=r"already has a table or view|not belong to this view"):
        generations.drop(1)
    conn.execute(f'select * from "{source_name}{suffix}"'.encode())


def test_a_name_too_long_for_postgresql_is_refused(base: Postgres) -> None:
    with pytest.raises(ViewError, match=r"its name has 65 bytes, too many for PostgreSQL\. Give"):
        open_sink(base, "v" * 63, None)


def test_a_role_without_rights_is_an_error_that_says_which(
    base: Postgres, source_name: str, conn: psycopg.Connection[Any]
) -> None:
    role = f"poor_{source_name}"
    conn.execute(f"create role {role} login password 'hunter2'".encode())
    dsn = psycopg.conninfo.make_conninfo(base.dsn, user=role, password="hunter2")
    try:
        sink = open_sink(Postgres(kind="postgres", dsn=dsn), source_name, None, retry_s=1)
        with pytest.raises(SinkError, match=r"denied for schema public\. Grant") as error:
            sink.prepare(ITEMS, ("id",))
        assert "hunter2" not in f"{error.value} {sink.__dict__} {base!r}"
    finally:
        conn.execute(f"drop role {role}".encode())


def test_what_a_database_has_for_defaults_changes_no_row(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    name = base.dsn.rsplit("/", 1)[1]
    conn.execute(f"alter database {name} set array_nulls = off".encode())
    try:
        columns = StructType([ITEMS["id"], StructField("tags", ArrayType(StringType()))])
        feed = open_feed(base, columns)
        feed.apply(upsert(LSN, id=1, tags=["a", None]))
        assert feed.values("tags") == {1: ["a", None]}
    finally:
        conn.execute(f"alter database {name} reset array_nulls".encode())


def limit_files(conn: psycopg.Connection[Any], session: int) -> None:
    """Let no file of a session's grow beyond those of the server's log, which have 16 MB."""
    limit = f"prlimit --pid {session} --fsize={16 << 20}"
    conn.execute(f"copy (select) to program '{limit}'".encode())


def test_a_full_disk_is_named_and_waited_for(base: Postgres, conn: psycopg.Connection[Any]) -> None:
    def session(conn: psycopg.Connection[Any]) -> int:
        return conn.info.backend_pid

    def fill(conn: psycopg.Connection[Any]) -> int:
        conn.execute("create temporary table much on commit drop as select repeat('x', 2000) x")
        conn.execute("insert into much select x from much, generate_series(1, 10000)")
        return session(conn)

    named, waiting = Database(base.dsn, 0), Database(base.dsn, 30)
    limit_files(conn, named.call("t", session))
    with pytest.raises(SinkError, match=r"accepts no writes \(XX000\)\. Free space on its disk"):
        named.call("t", fill)
    limited = waiting.call("t", session)
    limit_files(conn, limited)
    assert waiting.call("t", fill) != limited, "it was not tried again"


def test_a_table_that_is_locked_is_waited_for_and_named(
    base: Postgres,
    open_feed: OpenFeed,
    conn: psycopg.Connection[Any],
) -> None:
    feed = open_feed(base, retry_s=0.1)
    with conn.transaction():
        conn.execute(f'lock table "{feed.view}@1"'.encode())
        with pytest.raises(SinkError, match="End the session that holds a lock"):
            feed.apply(upsert(LSN, id=1, name="a"))
    feed.apply(upsert(LSN, id=1, name="a"))
    assert feed.values("name") == {1: "a"}


def test_a_table_that_was_dropped_is_an_error_and_does_not_come_back(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    conn.execute(f'drop table "{feed.view}@1" cascade'.encode())
    with pytest.raises(SinkError, match=r"does not exist\. Run `headwater view rebuild`"):
        feed.apply(upsert(LSN, id=1, name="a"))


def test_a_session_that_was_ended_is_replaced(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base)
    feed.apply(upsert(LSN, id=1, name="a"))
    conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    feed.apply(upsert(LSN + 1, id=1, name="b"))
    assert feed.values("name") == {1: "b"}
    feed.sink.close()
    away = Postgres(kind="postgres", dsn="host=127.0.0.1 port=1 dbname=x")
    with pytest.raises(
        RetryableError, match=r"PostgreSQL at 127\.0\.0\.1:1/x does not answer\. Start"
    ):
        open_sink(away, "v", None, retry_s=0.1).prepare(ITEMS, ("id",))
