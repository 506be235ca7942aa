"""A snapshot that takes several LSNs: interrupted, grown old, or overtaken by DDL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdc.config import Source
from cdc.errors import RetryableError
from cdc.source.postgres import connect
from migrations.runner import migrate
from tests.snapshots.shop import Shop
from tests.support.waiting import wait_until


@pytest.fixture
def shop(database: str, source_name: str) -> Iterator[Shop]:
    with connect(database) as conn:
        migrate(conn)
        source = Source(name=source_name, dsn=database, tables=("public.t",))
        yield Shop(database, conn, source, chunk_mb=0.02)


def events(shop: Shop) -> list[dict[str, Any]]:
    return shop.events[f"{shop.source.name}.public.t"]


def newest(shop: Shop) -> dict[int, dict[str, Any]]:
    """The row of each key at the greatest position."""
    rows: dict[int, tuple[int, dict[str, Any]]] = {}
    for event in events(shop):
        lsn, row = event["source"]["commit_lsn"], event["after"]
        if row is not None and lsn >= rows.get(row["id"], (0, {}))[0]:
            rows[row["id"]] = lsn, row
    return {key: row for key, (_, row) in rows.items()}


def interrupted(shop: Shop, *after: str) -> int:
    """Read until Kafka goes away; the rows that were read by then. Then the statements run."""
    shop.fails_after = 500
    with pytest.raises(RetryableError, match="Kafka is away"):
        shop.snapshot()
    read = len(shop.rows("t"))
    assert 500 <= read < 2000
    wait_until(lambda: alone(shop), "the snapshot's sessions to be gone: they hold vacuum back")
    shop.run(*after)
    return read


def alone(shop: Shop) -> bool:
    """Whether no other session of the database is left."""
    others = shop.conn.execute(
        "select from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')"
    )
    return others.fetchone() is None


def make_table(shop: Shop, key: str = "id int primary key") -> None:
    shop.run(
        f"create table public.t ({key}, small text, big text) with (autovacuum_enabled = false)",
        "alter table public.t alter column big set storage external",
        "insert into public.t select i, repeat('s', 100), 'big' || i || repeat('b', 3000)"
        " from generate_series(1, 2000) i",
    )


def test_what_is_finished_is_not_read_again(shop: Shop) -> None:
    make_table(shop)
    read = interrupted(shop)
    assert shop.snapshot() == {"public.t": 2000}
    assert len(newest(shop)) == 2000
    assert len(shop.rows("t")) < 2000 + read / 2  # but for chunks that nobody acknowledged
    assert len({event["source"]["commit_lsn"] for event in events(shop)}) == 2


def test_a_row_that_moved_into_a_finished_range_is_read_with_its_large_value(shop: Shop) -> None:
    make_table(shop)
    interrupted(
        shop,
        "delete from public.t where id <= 50",
        "vacuum public.t",
        # In a subtransaction, whose id is none that a snapshot lists while it is open.
        "begin; savepoint s; update public.t set small = 'moved' where id = 1500; "
        "update public.t set id = 5000 where id = 1400; release s; commit",
    )
    row = shop.conn.execute(
        "select max((ctid::text::point)[0]) from public.t where id in (1500, 5000)"
    ).fetchone()
    done = shop.conn.execute(
        "select min(first_block) from headwater.snapshot_chunk where lsn is null"
    ).fetchone()
    assert row is not None
    assert done is not None
    assert row[0] < done[0]  # both stand where all was read
    shop.snapshot()
    rows = newest(shop)
    assert rows[1500]["small"] == "moved"
    assert rows[1500]["big"].startswith("big1500b")
    assert rows[5000]["big"].startswith("big1400b")


def test_a_table_without_a_key_is_read_anew_behind_a_truncate(shop: Shop) -> None:
    make_table(shop, "id int")
    shop.run("alter table public.t replica identity full")
    interrupted(shop, "update public.t set small = 'x' where id = 2000")
    assert shop.snapshot() == {"public.t": 2000}
    found = events(shop)
    (cleared,) = [i for i, event in enumerate(found) if event["op"] == "t"]
    assert len(found[cleared + 1 :]) == 2000
    lsns = {event["source"]["commit_lsn"] for event in found[cleared + 1 :]}
    assert lsns == {found[cleared]["source"]["commit_lsn"] + 1}


@pytest.mark.parametrize("rewrite", ["vacuum full public.t", "alter table public.t add n int"])
def test_a_table_that_has_other_files_or_columns_is_read_anew(shop: Shop, rewrite: str) -> None:
    make_table(shop)
    interrupted(shop, rewrite)
    assert shop.snapshot() == {"public.t": 2000}
    found = [event["op"] for event in events(shop)]
    assert found[found.index("t") + 1 :] == ["r"] * 2000


def test_an_old_snapshot_is_left_for_a_later_one(shop: Shop) -> None:
    make_table(shop)
    shop.max_age_s = 0
    assert shop.snapshot() == {"public.t": 2000}
    assert len({event["source"]["commit_lsn"] for event in events(shop)}) > 5
    assert len(newest(shop)) == len(shop.rows("t")) == 2000


def test_partitions_that_come_are_added_and_those_that_go_void_what_was_read(shop: Shop) -> None:
    shop.run(
        "create table public.t (id int primary key, v text) partition by range (id)",
        *(
            f"create table public.t{n} partition of public.t for values from ({n}000) to ({n}999)"
            for n in range(2)
        ),
        "insert into public.t select i, repeat('v', 200) from generate_series(0, 998) i",
        "insert into public.t select i, repeat('v', 200) from generate_series(1000, 1998) i",
    )
    interrupted(
        shop,
        "create table public.t2 partition of public.t for values from (2000) to (2999)",
        "insert into public.t values (2000, 'new')",
    )
    assert shop.snapshot() == {"public.t": 1999}
    assert "t" not in {event["op"] for event in events(shop)}
    assert len(newest(shop)) == 1999
    shop.run("update headwater.snapshot set status = 'running'", "drop table public.t0")
    assert shop.snapshot() == {"public.t": 1000}
    found = [event["op"] for event in events(shop)]
    assert found[found.index("t") + 1 :] == ["r"] * 1000
