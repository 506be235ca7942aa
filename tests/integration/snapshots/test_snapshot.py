"""Reading tables in a slot's snapshot, on a real server; what would go to Kafka is kept here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc.config import Source
from cdc.errors import HeadwaterError
from cdc.source.postgres import connect
from migrations.runner import migrate
from tests.snapshots.shop import Shop


@pytest.fixture
def shop(database: str, source_name: str) -> Iterator[Shop]:
    with connect(database) as conn:
        migrate(conn)
        yield Shop(database, conn, Source(name=source_name, dsn=database, tables=("public.*",)))


def test_the_snapshot_holds_what_was_committed_before_its_lsn_and_nothing_else(
    shop: Shop,
) -> None:
    shop.run(
        "create table public.t (id int primary key, v text)",
        "insert into public.t select i, 'v' || i from generate_series(1, 5000) i",
    )
    counts = shop.snapshot(
        "insert into public.t values (9999, 'late')",
        "update public.t set v = 'changed' where id = 1",
        "delete from public.t where id = 2",
    )
    assert counts == {"public.t": 5000}
    assert shop.rows("t") == [{"id": i, "v": f"v{i}"} for i in range(1, 5001)]


def test_text_comes_through_unharmed(shop: Shop) -> None:
    texts = ["", "\\N", "a\tb\nc\r\\d", 'quote " and é 漢 \u2028', "\b\f\v\x01\x7f", "\\.", None]
    shop.run("create table public.t (id int primary key, v text)")
    for i, text in enumerate(texts):
        shop.conn.execute("insert into public.t values (%s, %s)", (i, text))
    shop.snapshot()
    assert shop.rows("t") == [{"id": i, "v": text} for i, text in enumerate(texts)]


def test_column_list_row_filter_and_generated_columns_follow_the_publication(shop: Shop) -> None:
    shop.run(
        """create table public.t (id int primary key, v int, secret text,
           double int generated always as (v * 2) stored)""",
        "insert into public.t values (1, 10, 'x'), (2, 20, 'y'), (3, null, 'z')",
        f"create publication {shop.source.publication_name} for table public.t (id, v) "
        "where (id > 1) with (publish_via_partition_root = true)",
    )
    shop.snapshot()
    assert shop.rows("t") == [{"id": 2, "v": 20}, {"id": 3, "v": None}]


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ("alter table public.t alter column v type bigint", [{"id": 1, "v": 1}]),
        ("truncate public.t", []),
        ("alter table public.t rename column v to w", [{"id": 1, "w": 1}]),
        ("alter table public.t drop column v", [{"id": 1}]),
        ("alter table public.t add column w int default 7", [{"id": 1, "v": 1, "w": 7}]),
    ],
)
def test_a_table_altered_after_the_snapshot_was_taken_is_read_at_a_later_one(
    shop: Shop, change: str, rows: list[dict[str, Any]]
) -> None:
    shop.run(
        "create table public.t (id int primary key, v int)", "insert into public.t values (1, 1)"
    )
    assert shop.snapshot(change) == {"public.t": len(rows)}
    events = shop.events.get(f"{shop.source.name}.public.t", [])
    assert events[0]["op"] == "t"  # what may have been read before is void
    assert shop.rows("t")[1:] == rows


@pytest.mark.parametrize(
    ("swap", "rows"),
    [
        (
            (
                "drop table public.item",
                "create table public.item (id int primary key, name text)",
                "insert into public.item values (2, 'b')",
            ),
            [{"id": 2, "name": "b"}],
        ),
        (
            (
                "create table public.fresh (id int primary key, name text)",
                "alter table public.item rename to old; alter table public.fresh rename to item",
            ),
            [],
        ),
    ],
)
def test_a_table_that_took_the_name_of_another_is_read_in_its_place(
    shop: Shop, swap: tuple[str, ...], rows: list[dict[str, Any]]
) -> None:
    shop.run(
        "create table public.item (id int primary key)",
        "insert into public.item values (1)",
    )
    shop.source = shop.source.model_copy(update={"tables": ("public.item",)})
    shop.snapshot(*swap)
    assert shop.rows("item")[1:] == rows


def test_row_level_security_never_makes_a_snapshot_smaller(shop: Shop) -> None:
    role = f"role_{shop.source.name}"
    shop.run(
        f"create role {role} login replication",
        "create table public.t (id int primary key)",
        "insert into public.t values (1), (2)",
        "alter table public.t enable row level security",
        f"create policy half on public.t to {role} using (id = 1)",
        f"grant select on public.t to {role}",
    )
    try:
        dsn = psycopg.conninfo.make_conninfo(shop.dsn, user=role)
        shop.source = shop.source.model_copy(update={"dsn": dsn})
        with pytest.raises(HeadwaterError, match="row-level security"):
            shop.snapshot()
    finally:
        shop.run(f"drop owned by {role}", f"drop role {role}")


def test_no_table_stays_locked_while_the_others_are_read(shop: Shop) -> None:
    shop.run(
        "create table public.a (id int primary key)",
        "create table public.b (id int primary key)",
        "insert into public.a values (1)",
        "insert into public.b values (1)",
    )
    locked: dict[str, list[str]] = {}
    real_send = shop.send

    def send(topic: str, *rest: Any, **named: Any) -> None:
        rows = shop.conn.execute(
            "select relation::regclass::text from pg_locks where mode = 'AccessShareLock' "
            "and relation in ('public.a'::regclass, 'public.b'::regclass)"
        )
        locked[topic] = [row[0] for row in rows]
        real_send(topic, *rest, **named)

    shop.send = send  # type: ignore[method-assign]
    shop.snapshot()
    assert locked[f"{shop.source.name}.__schemas"] == ["public.b"]


def test_tables_of_every_shape_are_read_whole_in_many_chunks(shop: Shop) -> None:
    some = "from generate_series(1, 2000) i"
    shop.run(
        "create type public.pair as (a int, b text)",
        "create type public.mood as enum ('sad', 'glad')",
        "create table public.by_uuid (id uuid primary key, v text)",
        f"insert into public.by_uuid select md5(i::text)::uuid, repeat('v', i % 300) {some}",
        'create table public.by_text (id text collate "C" primary key)',
        f"insert into public.by_text select repeat(chr(64 + i % 26), 1 + i / 26) {some}",
        "create table public.by_numeric (id numeric primary key)",
        f"insert into public.by_numeric select i * 0.5 {some}",
        "insert into public.by_numeric values ('NaN'), ('Infinity')",
        "create table public.by_pair (id public.pair primary key)",
        f"insert into public.by_pair select row(i, null)::public.pair {some}",
        "create table public.by_mood (m public.mood, i int, primary key (m, i))",
        f"insert into public.by_mood select 'glad', i {some}",
        "create table public.bare (v int)",
        "alter table public.bare replica identity full",
        f"insert into public.bare select 1 {some}",
        "create table public.empty (id int primary key)",
        "create table public.hollow (id int primary key) partition by range (id)",
        # One row for each block, then thousands of them.
        "create table public.skewed (id int primary key, v text)",
        "alter table public.skewed alter column v set storage plain",
        "insert into public.skewed select i, repeat('w', 7000) from generate_series(1, 50) i",
        f"insert into public.skewed select 50 + i, '' {some}",
    )
    shop.chunk_mb = 0.02
    counts = shop.snapshot()
    expected = dict.fromkeys(("by_uuid", "by_text", "by_pair", "by_mood", "bare"), 2000)
    expected |= {"by_numeric": 2002, "empty": 0, "hollow": 0, "skewed": 2050}
    assert counts == {f"public.{name}": rows for name, rows in sorted(expected.items())}
    row = shop.conn.execute(
        "select count(*), count(distinct table_name), sum(row_count)::bigint "
        "from headwater.snapshot_chunk where lsn is not null"
    ).fetchone()
    assert row is not None
    assert row[0] > 60
    assert row[1:] == (8, sum(expected.values()))
    for name, count in expected.items():
        rows = [json.dumps(row) for row in shop.rows(name)]
        assert len(rows) == count
        assert len(set(rows)) == (1 if name == "bare" else count)
