"""The publication on a real server: made, kept, changed, refused."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from cdc.config import Source
from cdc.errors import SourceError
from cdc.source.catalog import captured_tables
from cdc.source.postgres import Connection, connect
from cdc.source.publication import ensure_publication, read_publication


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connect(database) as connection:
        for table in ("a", "b"):
            connection.execute(f"create table public.{table} (id int primary key)".encode())
        yield connection


def ensure(conn: Connection, *tables: str) -> list[str]:
    source = Source(name="shop", dsn="unused", tables=tables)
    return ensure_publication(conn, "p", captured_tables(conn, source))


def test_it_publishes_all_operations_of_exactly_the_chosen_tables(conn: Connection) -> None:
    assert len(ensure(conn, "public.a")) == 1
    found = read_publication(conn, "p")
    assert found is not None
    assert found == (frozenset({("public", "a")}), True, True, "")
    assert ensure(conn, "public.a") == []
    ensure(conn, "public.b")
    found = read_publication(conn, "p")
    assert found is not None
    assert found.tables == {("public", "b")}


def test_an_inheriting_table_does_not_come_in_by_itself(conn: Connection) -> None:
    conn.execute("create table public.child (primary key (id)) inherits (public.a)")
    ensure(conn, "public.a")
    found = read_publication(conn, "p")
    assert found is not None
    assert found.tables == {("public", "a")}


def test_one_made_by_hand_that_fits_keeps_its_filters(conn: Connection) -> None:
    conn.execute(
        "create publication p for table public.a where (id > 3) "
        "with (publish_via_partition_root = true)"
    )
    assert ensure(conn, "public.a") == []
    assert len(ensure(conn, "public.a", "public.b")) == 1
    row = conn.execute("select count(*) from pg_publication_rel where prqual is not null")
    assert row.fetchone() == (1,)


def test_one_for_all_tables_is_refused(conn: Connection) -> None:
    conn.execute("create publication p for all tables")
    with pytest.raises(SourceError, match=r"FOR ALL TABLES.*source\.publication"):
        ensure(conn, "public.a")


def test_a_missing_privilege_is_answered_with_the_sql_for_the_owner(
    database: str, conn: Connection, source_name: str
) -> None:
    role = f"role_{source_name}"
    conn.execute(f"create role {role} login".encode())
    try:
        dsn = psycopg.conninfo.make_conninfo(database, user=role)
        with connect(dsn) as poor, pytest.raises(SourceError) as caught:
            ensure(poor, "public.a")
        assert 'CREATE PUBLICATION "p" FOR TABLE ONLY "public"."a"' in caught.value.hint
        assert read_publication(conn, "p") is None
    finally:
        conn.execute(f"drop role {role}".encode())
