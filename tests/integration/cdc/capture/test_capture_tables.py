"""Kinds of tables and of publications in the stream: keys, identities, lists, filters, names."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.commands.deployment import Deployment, Event, assert_exactly_once_in_order, fold


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    return deployment


def streamed(events: list[Event]) -> list[tuple[str, Any, Any, Any]]:
    """Operation, key, before and after in commit order; tombstones left out."""
    found = sorted((e for e in events if e.value and e.position[1]), key=lambda e: e.position)
    return [(e.value["op"], e.key, e.value["before"], e.value["after"]) for e in found if e.value]


CHANGES = (
    "insert into log values (1, 'a')",
    "update log set note = 'b'",
    "update log set id = 2",
    "delete from log",
)


def test_a_table_without_a_key_has_events_without_one_in_one_partition(shop: Deployment) -> None:
    shop.execute("create table log (id int, note text)", "alter table log replica identity full")
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(*CHANGES)
        shop.captured(capture)
    events = shop.events("log")
    assert {event.partition for event in events} == {0}
    assert [(op, key) for op, key, *_ in streamed(events)] == [
        ("c", None), ("u", None), ("u", None), ("d", None),
    ]  # fmt: skip
    assert all(event.value for event in events)


def test_a_key_that_the_configuration_chooses_is_the_key(shop: Deployment) -> None:
    shop.execute("create table log (id int, note text)", "alter table log replica identity full")
    shop.settings = 'keys = { "public.log" = ["id"] }\n'
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(*CHANGES)
        shop.captured(capture)
    events = shop.events("log")
    assert_exactly_once_in_order(events)
    assert [(op, key) for op, key, *_ in streamed(events)] == [
        ("c", {"id": 1}), ("u", {"id": 1}), ("d", {"id": 1}), ("c", {"id": 2}), ("d", {"id": 2}),
    ]  # fmt: skip
    assert fold(events) == {}


def test_an_index_that_is_the_replica_identity_is_the_key(shop: Deployment) -> None:
    shop.execute(
        "create table log (id int primary key, note text not null)",
        "create unique index by_note on log (note)",
        "alter table log replica identity using index by_note",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(*CHANGES)
        shop.captured(capture)
    events = shop.events("log")
    assert_exactly_once_in_order(events)
    assert [(op, key) for op, key, *_ in streamed(events)] == [
        ("c", {"note": "a"}), ("d", {"note": "a"}), ("c", {"note": "b"}), ("u", {"note": "b"}),
        ("d", {"note": "b"}),
    ]  # fmt: skip


def test_a_transaction_of_another_server_names_its_origin(shop: Deployment) -> None:
    shop.execute("create table log (id int primary key, note text)")
    shop.init()
    origin = f"elsewhere_{shop.name}"
    with shop.running("capture") as capture:
        with psycopg.connect(shop.dsn, autocommit=True) as conn:
            conn.execute("select pg_replication_origin_create(%s)", [origin])
            conn.execute("select pg_replication_origin_session_setup(%s)", [origin])
            with conn.transaction():
                conn.execute("select pg_replication_origin_xact_setup('0/ABC', now())")
                conn.execute("insert into log values (1, 'a')")
            conn.execute("select pg_replication_origin_session_reset()")
            conn.execute("select pg_replication_origin_drop(%s)", [origin])
            conn.execute("insert into log values (2, 'b')")
        shop.captured(capture)
    sources = {e.key["id"]: e.value["source"] for e in shop.events("log") if e.key and e.value}
    assert (sources[1]["origin"], sources[1]["origin_lsn"]) == (origin, 0xABC)
    assert (sources[2]["origin"], sources[2]["origin_lsn"]) == (None, None)


def test_column_lists_row_filters_and_generated_columns_hold_for_rows_and_stream(
    shop: Deployment,
) -> None:
    shop.execute(
        "create table log (id int primary key, note text, secret text, twice int"
        " generated always as (id * 2) stored)",
        "insert into log values (1, 'out', 's'), (11, 'in', 's')",
        f"create publication headwater_{shop.name} for table only log (id, note, twice)"
        " where (id > 10) with (publish_via_partition_root = true)",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            "insert into log values (2, 'out', 's'), (12, 'in', 's')",
            "update log set id = 13 where id = 2",
            "update log set id = 3 where id = 11",
            "delete from log where id = 1",
        )
        shop.captured(capture)
    events = shop.events("log")
    assert_exactly_once_in_order(events)
    rows = sorted(fold(events).values(), key=lambda row: row["id"])
    assert rows == [
        {"id": 12, "note": "in", "twice": 24}, {"id": 13, "note": "out", "twice": 26},
    ]  # fmt: skip
    assert "secret" not in str([event.value for event in events])


def test_generated_columns_are_streamed_where_the_publication_says_so(shop: Deployment) -> None:
    shop.execute(
        "create table log (id int primary key, twice int generated always as (id * 2) stored)",
        "insert into log values (1)",
        f"create publication headwater_{shop.name} for table only log with"
        " (publish_via_partition_root = true, publish_generated_columns = stored)",
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute("insert into log values (2)")
        shop.captured(capture)
    rows = sorted(fold(shop.events("log")).values(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "twice": 2}, {"id": 2, "twice": 4}]


def test_quoted_and_unicode_names_are_kept_in_events_and_replaced_in_topics(
    shop: Deployment,
) -> None:
    table = 'öl."Zäh ler%s"'
    shop.tables = ("öl.*",)
    shop.execute(
        "create schema öl",
        f'create table {table} ("ID" int primary key, "a""b\\c%d" text, "名前" text, "😀" text)',
        f'alter table {table} alter "名前" set storage external',
    )
    shop.init()
    with shop.running("capture") as capture:
        shop.execute(
            f"insert into {table} values (1, 'x', repeat('名', 4000), 'z')",
            f"""update {table} set "ID" = 2""",
        )
        shop.captured(capture)
    events = shop.events("Zäh ler%s", "öl")
    assert_exactly_once_in_order(events)
    (row,) = fold(events).values()
    assert row == {"ID": 2, 'a"b\\c%d': "x", "名前": "名" * 4000, "😀": "z"}
    source = next(event.value["source"] for event in events if event.value)
    assert (source["schema"], source["table"]) == ("öl", "Zäh ler%s")
