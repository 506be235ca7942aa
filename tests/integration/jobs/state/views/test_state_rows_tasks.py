"""Parts of a load in processes of their own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threading import Thread

import psycopg
import pytest
from psycopg import conninfo

from cdc.config import Redis
from cdc.errors import RetryableError
from cdc.lsn import Position
from cdc.source.types import load_types
from jobs.sinks.redis.sink import RedisSink
from jobs.sinks.row_errors import RowsUnfitError
from jobs.state.mirrors.load_task import LoadTask, key_ranges
from jobs.state.server.settings import SESSION_OPTIONS
from jobs.state.views.store_rows import form_of_store
from jobs.state.views.view_columns import described, spark_columns
from tests.support.servers.stores import LSN
from tests.support.waiting import wait_until

ROWS = 9_000
SELECT = "select id, name, at from public.t"


def _made(database: str) -> psycopg.Connection[tuple[object, ...]]:
    """A transaction with a snapshot of the table, after which others write."""
    conn = psycopg.connect(conninfo.make_conninfo(database, options=SESSION_OPTIONS))
    conn.execute(
        "create table public.t as select i as id, 'n' || i as name, date '2024-01-01' as at"
        f" from generate_series(1, {ROWS}) i"
    )
    conn.commit()
    conn.execute("set transaction isolation level repeatable read")
    return conn


def _tasks(
    conn: psycopg.Connection[tuple[object, ...]], database: str, sink: RedisSink, store: Redis
) -> list[LoadTask]:
    columns = described(conn, SELECT, load_types(conn))
    sink.prepare(spark_columns(columns), ("id",))
    form = form_of_store(store, columns, ("id",), None)
    shown = ", ".join(form.expressions("m", "m"))
    row = conn.execute("select pg_export_snapshot()").fetchone()
    assert row is not None
    return [
        LoadTask(
            conninfo.make_conninfo(database, options=SESSION_OPTIONS),
            str(row[0]),
            "v",
            f"select {shown} from (select * from ({SELECT}) v where {some}) m",
            form,
            Position(LSN, 1),
            sink.writer,
        )
        for some in key_ranges(conn, "public.t", "id", 4).conditions
    ]


def test_parts_of_a_load_are_the_whole_of_one_moment(
    database: str, redis_server: str, source_name: str
) -> None:
    store = Redis(kind="redis", url=redis_server)
    sink = RedisSink(store, source_name, 60.0)
    with _made(database) as conn:
        tasks = _tasks(conn, database, sink, store)
        assert len(tasks) == 4
        with psycopg.connect(database) as other:
            other.execute("update public.t set name = 'late'")
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            written = list(pool.map(_run, tasks))
    assert sum(written) == ROWS
    assert max(written) < ROWS / 3
    names = {row.key[0]: row.values["name"] for row in sink.scan()}
    assert names == {i: f"n{i}" for i in range(1, ROWS + 1)}
    sink.close()


def _run(task: LoadTask) -> int:
    return task()


def test_a_part_tells_of_rows_that_no_view_holds_when_the_others_are_written(
    database: str, redis_server: str, source_name: str
) -> None:
    store = Redis(kind="redis", url=redis_server)
    sink = RedisSink(store, source_name, 60.0)
    with _made(database) as conn:
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("update public.t set at = 'infinity' where id = 7")
        first, *_ = _tasks(conn, database, sink, store)
        with pytest.raises(RowsUnfitError, match="'at'") as caught:
            first()
    assert [row.id for row in caught.value.rows] == ["7"]
    found = {row.key[0] for row in sink.scan()}
    assert 6 in found
    assert 7 not in found
    sink.close()


def test_a_part_does_not_wait_behind_who_waits_for_the_load(
    database: str, redis_server: str, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror that is to be replaced meanwhile: the load holds it, and would wait for its part."""
    monkeypatch.setattr("jobs.state.mirrors.load_task._LOCK_S", 1)
    store = Redis(kind="redis", url=redis_server)
    sink = RedisSink(store, source_name, 60.0)
    with _made(database) as conn, psycopg.connect(database) as replacing:
        first, *_ = _tasks(conn, database, sink, store)
        dropping = Thread(target=replacing.execute, args=("drop table public.t",))
        dropping.start()
        asked = "select 1 from pg_locks where pid = %s and not granted"
        with psycopg.connect(database, autocommit=True) as look:
            pid = replacing.info.backend_pid
            wait_until(lambda: look.execute(asked, (pid,)).fetchone(), "the drop to wait")
        with pytest.raises(RetryableError, match="lock"):
            first()
        conn.rollback()
        dropping.join()
    sink.close()


@pytest.mark.parametrize("values", ["select null::int", "select 1 from generate_series(1, 9)"])
def test_what_cannot_be_divided_is_one_part(database: str, values: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute(f"create table public.t (id) as {values}".encode())
        ranges = key_ranges(conn, "public.t", "id", 4)
        counted = [
            conn.execute(f"select count(*) from public.t where {some}".encode()).fetchone()
            for some in ranges.conditions
        ]
    assert ranges.rows == sum(row[0] for row in counted if row)
    assert sum(row[0] for row in counted if row) == (1 if "null" in values else 9)
