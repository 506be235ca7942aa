"""What the measurements of views write to the source, and how they read it back."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from benchmarks.capture.shapes import CUSTOMERS, USUAL, orders_of
from benchmarks.environment import Setting, create_table, load
from benchmarks.traffic import traffic
from benchmarks.views import contents
from benchmarks.views.catchup import update_keys
from benchmarks.views.contents import Contents, require_same
from benchmarks.views.probes import in_redis
from benchmarks.views.visible import Turn, row_of, statements
from cdc.errors import FatalError
from stack.guardian import Guardian


@pytest.fixture
def setting(database: str, tmp_path: Path, guardian: Guardian) -> Setting:
    (tmp_path / "logs").mkdir()
    return Setting(tmp_path, database, "", 1_000, lambda _what, _part: None, guardian)


def test_every_change_writes_its_mark_into_a_row_that_no_other_goes_to(setting: Setting) -> None:
    orders = 10_000
    turn = Turn("join", ["orders", "customers"], ("total", "credit"), 5)
    with setting.connect() as conn:
        create_table(conn, orders_of(orders // 10), "seen_orders")
        load(setting, conn, orders_of(orders // 10), "seen_orders", orders, orders)
        create_table(conn, CUSTOMERS, "seen_customers")
        load(setting, conn, CUSTOMERS, "seen_customers", orders // 10, orders)
    with traffic(setting, "join", statements(turn, orders), 200, 2) as commits:
        assert commits.commits().keys() == set(range(1, 401))
    with psycopg.connect(setting.dsn) as connection:
        written: dict[int, int] = dict(
            connection.execute("select total::int, id from seen_orders where total > 1000000")
        )
        credits = connection.execute(
            "select credit::int from seen_customers where credit > 1000000"
        )
        without = connection.execute(
            "select count(*) from seen_customers c"
            " where not exists (select from seen_orders o where o.customer_id = c.id)"
        )
        assert without.fetchone() == (0,)
        assert {mark for (mark,) in credits} == {turn.first + n for n in range(10, 401, 10)}
    marks = {turn.first + n for n in range(1, 401) if n % 10}
    assert written == {mark: row_of(mark, orders) for mark in marks}


def test_a_backlog_changes_every_key_as_often(setting: Setting) -> None:
    with setting.connect() as conn:
        create_table(conn, USUAL, "t")
        load(setting, conn, USUAL, "t", 100, 1_000)
        update_keys(setting, conn, "t", 100)
        totals = conn.execute("select min(total), max(total), count(distinct total) from public.t")
        assert totals.fetchone() == (901, 1_000, 100)


def test_rows_are_seen_in_redis_and_counted_at_the_end(
    setting: Setting, redis_server: str, source_name: str
) -> None:
    with setting.connect() as conn:
        create_table(conn, USUAL, "t")
        load(setting, conn, USUAL, "t", 50, 50)
        conn.execute("update public.t set total = 1000000 + id")
        rows = conn.execute("select id, total::text from public.t").fetchall()
    with Redis.from_url(redis_server) as client:
        client.set(f"{source_name}@live", f"{source_name}@1")
        look = in_redis(redis_server, source_name, "total", lambda mark: mark - 1_000_000)
        marks = range(1_000_001, 1_000_051)
        assert look(marks) == []
        for id_, total in rows:
            client.hset(f"{source_name}@1:{id_}", "doc", json.dumps({"id": id_, "total": total}))
    assert look(marks) == list(marks)
    assert look(range(1_000_060, 1_000_070)) == []
    found = contents.in_redis(redis_server, source_name)
    require_same(setting, "t", found, "Redis")
    with pytest.raises(FatalError, match="Redis holds Contents"):
        require_same(setting, "t", Contents(49, found.total), "Redis")
