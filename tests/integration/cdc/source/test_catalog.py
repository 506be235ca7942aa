"""Types, tables and relations as a real catalog has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bootstrap.source_tables import present
from cdc.config import Source
from cdc.errors import SourceError
from cdc.source.catalog import captured_tables, enum_labels, published, relation, table_facts
from cdc.source.postgres import Connection, connect
from cdc.source.publication import ensure_publication
from cdc.source.types import load_types
from views.table_versions import parse_version


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connect(database) as connection:
        yield connection


def source(*tables: str, **more: Any) -> Source:
    return Source(name="shop", dsn="unused", tables=tables, **more)


def oid_of(conn: Connection, name: str) -> int:
    row = conn.execute("select %s::regclass::oid::bigint", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def run(conn: Connection, *statements: str) -> None:
    for statement in statements:
        conn.execute(statement.encode())


def test_domains_arrays_and_enums_are_resolved_to_what_decides_their_values(
    conn: Connection,
) -> None:
    run(
        conn,
        "create type public.mood as enum ('sad', 'ok')",
        "create domain public.price as numeric(5,2)",
        "create domain public.fare as public.price",
        "create domain public.numbers as int[]",
        "create type public.pair as (a int, b text)",
        "create type public.int4 as enum ('not a number')",
        """create table public.t (id int primary key, fares public.fare[], fare public.fare,
           moods public.mood[], numbers public.numbers, box box[], v oidvector, p public.pair,
           r int4range, odd public.int4, shouted varchar(7))""",
    )
    found = relation(conn, oid_of(conn, "public.t"), load_types(conn))
    types, some = load_types(conn), load_types(conn, [1, *(c.type.oid for c in found.columns)])
    assert {c.type.oid for c in found.columns} <= some.keys()
    assert len(some) < 40
    assert some == {oid: types[oid] for oid in some}
    seen = {c.name: (c.type.kind, c.type.base, c.typmod) for c in found.columns}
    assert seen == {
        "id": ("base", "int4", -1),
        "fares": ("array", "array", -1),
        "fare": ("domain", "numeric", (5 << 16 | 2) + 4),
        "moods": ("array", "array", -1),
        "numbers": ("domain", "array", -1),
        "box": ("array", "array", -1),
        "v": ("base", "oidvector", -1),
        "p": ("composite", "pair", -1),
        "r": ("range", "int4range", -1),
        "odd": ("enum", "enum", -1),
        "shouted": ("base", "varchar", 7 + 4),
    }
    elements = {c.name: c.type.element.base for c in found.columns if c.type.element}
    assert elements == {"fares": "numeric", "moods": "enum", "numbers": "int4", "box": "box"}
    assert {c.name: c.type.delimiter for c in found.columns}["box"] == ";"


def test_the_key_follows_the_replica_identity_in_index_order(conn: Connection) -> None:
    run(
        conn,
        "create table public.t (a int not null, b text not null, c int not null)",
        "alter table public.t add primary key (c, a)",
        "create unique index other on public.t (b, a) include (c)",
    )
    oid, types = oid_of(conn, "public.t"), load_types(conn)
    assert relation(conn, oid, types).key == ("c", "a")
    run(conn, "alter table public.t replica identity full")
    assert relation(conn, oid, types).key == ("c", "a")
    run(conn, "alter table public.t replica identity using index other")
    assert relation(conn, oid, types).key == ("b", "a")
    assert table_facts(conn, oid).primary_key == ("c", "a")
    run(conn, "alter table public.t replica identity nothing")
    assert relation(conn, oid, types).key == ()


def test_a_deferrable_primary_key_is_no_key(conn: Connection) -> None:
    run(
        conn,
        "create table public.t (id int, v int)",
        "alter table public.t add primary key (id) deferrable",
        "alter table public.t replica identity full",
    )
    oid, types = oid_of(conn, "public.t"), load_types(conn)
    assert relation(conn, oid, types).key == ()
    assert relation(conn, oid, types, keys={"public.t": ("v",)}).key == ("v",)
    with pytest.raises(SourceError, match=r"public\.t: key column nope is not published"):
        relation(conn, oid, types, keys={"public.t": ("nope",)})


def test_only_published_columns_and_rows_count(conn: Connection) -> None:
    run(
        conn,
        """create table public.t (id int primary key, secret text, v int,
           double int generated always as (v * 2) stored)""",
        "create publication p for table public.t (id, v) where (id > 5)",
        "create publication whole for table public.t",
    )
    oid, types = oid_of(conn, "public.t"), load_types(conn)
    assert [c.name for c in relation(conn, oid, types, "p").columns] == ["id", "v"]
    assert published(conn, oid, "p").row_filter == "(id > 5)"
    assert [c.name for c in relation(conn, oid, types, "whole").columns] == ["id", "secret", "v"]
    if conn.info.server_version >= 180000:
        run(conn, "alter publication whole set (publish_generated_columns = stored)")
        columns = [c.name for c in relation(conn, oid, types, "whole").columns]
        assert columns == ["id", "secret", "v", "double"]


def test_the_labels_of_enums_are_told_by_attnum_through_domains_and_arrays(
    conn: Connection, database: str
) -> None:
    run(
        conn,
        "create type public.kind as enum ('b', 'a')",
        "create domain public.known as public.kind not null",
        "create domain public.kinds as public.known[]",
        "create table public.t (id int, gone int, k public.kind, d public.known, n text,"
        " l public.kind[], x public.kinds, v oidvector, none public.kind[])",
        "alter table public.t drop column gone",
        "alter type public.kind add value 'c' before 'a'",
    )
    labels = ["b", "c", "a"]
    oid = oid_of(conn, "public.t")
    assert enum_labels(conn, oid) == dict.fromkeys((3, 4, 6, 7, 9), labels)
    table = parse_version(relation(conn, oid, load_types(conn)).describe())
    here = Source(name="shop", dsn=database, tables=("public.t",))
    (asked,) = present(here, {"public.t": table}).values()
    assert [len(column.labels) for column in asked.columns] == [0, 3, 3, 0, 3, 3, 0, 3]


def test_nullability_and_dropped_columns_are_as_declared(conn: Connection) -> None:
    run(
        conn,
        "create table public.t (id int primary key, gone int, a int not null, b int)",
        "alter table public.t drop column gone",
    )
    found = relation(conn, oid_of(conn, "public.t"), load_types(conn))
    assert [(c.name, c.nullable) for c in found.columns] == [
        ("id", False),
        ("a", False),
        ("b", True),
    ]


def test_every_reason_against_the_chosen_tables_is_told_at_once(conn: Connection) -> None:
    run(
        conn,
        "create table public.good (id int primary key)",
        "create table public.bare (v int)",
        "create table public.silent (id int primary key)",
        "alter table public.silent replica identity nothing",
        "create view public.looks as select 1 as one",
        "create unlogged table public.fleeting (id int primary key)",
        'create table public."a b" (id int primary key)',
        "create table public.a_b (id int primary key)",
    )
    wanted = ("public.*", "public.looks", "public.fleeting", "public.missing", "other.*")
    with pytest.raises(SourceError) as caught:
        captured_tables(conn, source(*wanted))
    lines = caught.value.message.splitlines()
    expected = [
        "public.looks is a view",
        "public.fleeting is unlogged",
        "table public.missing does not exist",
        "source.tables: other.* matches no table",
        "public.bare has no replica identity",
        "public.silent has REPLICA IDENTITY NOTHING",
        "tables public.a b and public.a_b would share the topic shop.public.a_b",
    ]
    assert len(lines) == len(expected), caught.value.message
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start)


def test_a_partition_that_did_not_inherit_replica_identity_full_is_found(
    conn: Connection,
) -> None:
    run(
        conn,
        "create table public.r (id int) partition by range (id)",
        "create table public.r1 partition of public.r for values from (0) to (10)",
        "alter table public.r replica identity full",
    )
    with pytest.raises(SourceError, match=r"public\.r1 \(a partition of public\.r\)"):
        captured_tables(conn, source("public.r"))
    run(conn, "alter table public.r1 replica identity full")
    assert [t.label for t in captured_tables(conn, source("public.*"))] == ["public.r"]


def test_a_partition_whose_changes_are_not_in_wal_is_found(conn: Connection) -> None:
    run(
        conn,
        "create table public.r (id int primary key) partition by range (id)",
        "create unlogged table public.r1 partition of public.r for values from (0) to (10)",
    )
    with pytest.raises(SourceError, match=r"public\.r1 \(a partition of public\.r\) is unlogged"):
        captured_tables(conn, source("public.r"))
    run(conn, "alter table public.r1 set logged")
    assert [t.label for t in captured_tables(conn, source("public.r"))] == ["public.r"]


def test_odd_names_are_found_and_published(conn: Connection) -> None:
    run(
        conn,
        'create schema "Läden.1"',
        'create table "Läden.1"."Größe ""x""" ("Id" int primary key)',
    )
    tables = captured_tables(conn, source('"Läden.1"."Größe ""x"""'))
    assert [(t.schema, t.name) for t in tables] == [("Läden.1", 'Größe "x"')]
    ensure_publication(conn, "odd", tables)
    assert relation(conn, tables[0].oid, load_types(conn), "odd").key == ("Id",)


def test_collations_that_take_different_texts_for_equal_are_those_of_their_columns(
    conn: Connection,
) -> None:
    run(
        conn,
        "set allow_system_table_mods = on",
        "create collation public.ci (locale = 'C')",
        # What ICU would have, which this server is built without.
        "update pg_catalog.pg_collation set collisdeterministic = false where collname = 'ci'",
        "create domain public.label as text collate public.ci",
        'create table public.t (id int primary key, plain text, c text collate "C",'
        " code text collate public.ci, short varchar(3) collate public.ci, named public.label,"
        " tags text[] collate public.ci)",
    )
    oid = oid_of(conn, "public.t")
    found = relation(conn, oid, load_types(conn))
    collated = {column.name: column.collation for column in found.columns if column.collation}
    assert collated == dict.fromkeys(("code", "short", "named", "tags"), "public.ci")
    assert table_facts(conn, oid).collations == collated
    types = [str(column.type) for column in parse_version(found.describe()).columns]
    assert types[3:] == [
        "text collate public.ci",
        "varchar collate public.ci",
        "text collate public.ci",
        "text collate public.ci[]",
    ]
