"""The schema ``headwater``: what all migrations together make, and what the runner refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from cdc.errors import SourceError
from cdc.source.postgres import Connection, connect
from migrations.runner import Migration, migrate, migrations, pending
from snapshots import state
from snapshots.ledger import Chunk, Ledger, TableRecord

# The schema as it is meant to be now. A new migration changes this table with it.
SCHEMA = {
    "migration": {
        "version": "integer not null",
        "name": "text not null",
        "checksum": "text not null",
        "applied_at": "timestamp with time zone not null",
    },
    "snapshot": {
        "id": "bigint not null",
        "source": "text not null",
        "slot": "text",
        "status": "text not null",
        "consistent_point": "pg_lsn",
        "started_at": "timestamp with time zone not null",
        "finished_at": "timestamp with time zone",
        "kind": "text not null",
        "options": "jsonb not null",
        "wanted": "text",
        "error": "text",
    },
    "snapshot_point": {
        "snapshot_id": "bigint not null",
        "lsn": "pg_lsn not null",
        "sees": "pg_snapshot not null",
        "taken_at": "timestamp with time zone not null",
    },
    "snapshot_table": {
        "snapshot_id": "bigint not null",
        "schema_name": "text not null",
        "table_name": "text not null",
        "row_count": "bigint not null",
        "finished_at": "timestamp with time zone",
        "shape": "text",
        "estimated_rows": "bigint not null",
        "topic": "text",
        "dead_letters": "bigint not null",
    },
    "snapshot_chunk": {
        "snapshot_id": "bigint not null",
        "schema_name": "text not null",
        "table_name": "text not null",
        "number": "integer not null",
        "leaf": "oid not null",
        "file": "text not null",
        "first_block": "bigint not null",
        "end_block": "bigint",
        "lsn": "pg_lsn",
        "row_count": "bigint not null",
        "finished_at": "timestamp with time zone",
        "dead_letters": "bigint not null",
    },
    "signal": {
        "id": "text not null",
        "type": "text not null",
        "data": "text",
        "source": "text",
        "made_at": "timestamp with time zone not null",
        "taken_at": "timestamp with time zone",
        "answer": "text",
    },
    "emit_topic": {
        "source": "text not null",
        "name": "text not null",
    },
    "treated_column": {
        "source": "text not null",
        "table_oid": "oid not null",
        "attnum": "integer not null",
        "treatment": "text not null",
    },
}
EXTRA = Migration(len(migrations()) + 1, "later", "create table headwater.later (id int)")


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connect(database) as connection:
        yield connection


def test_all_migrations_together_make_the_schema(conn: Connection) -> None:
    assert migrate(conn) == migrations()
    found: dict[str, dict[str, str]] = {}
    rows = conn.execute(
        "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)"
        " || case when a.attnotnull then ' not null' else '' end "
        "from pg_attribute a join pg_class c on c.oid = a.attrelid "
        "where c.relnamespace = 'headwater'::regnamespace and c.relkind = 'r' and a.attnum > 0 "
        "order by a.attnum"
    )
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    assert found == SCHEMA


def test_a_second_run_changes_nothing_and_a_later_one_applies_what_is_new(
    conn: Connection,
) -> None:
    migrate(conn)
    assert migrate(conn) == []
    files = [*migrations(), EXTRA]
    assert pending(conn, files) == [EXTRA]
    assert migrate(conn, files) == [EXTRA]
    with pytest.raises(SourceError, match="this version of Headwater supports"):
        migrate(conn)


def test_a_migration_that_has_changed_since_is_refused(conn: Connection) -> None:
    migrate(conn)
    first, *rest = migrations()
    with pytest.raises(SourceError, match=r"0001.*was applied to this database"):
        migrate(conn, [first._replace(sql=first.sql + "-- changed"), *rest])


def test_a_migration_that_fails_leaves_nothing(conn: Connection) -> None:
    migrate(conn)
    broken = Migration(
        len(migrations()) + 1, "broken", "create table headwater.half (id int); select 1 / 0"
    )
    with pytest.raises(SourceError, match="division by zero"):
        migrate(conn, [*migrations(), broken])
    assert conn.execute("select to_regclass('headwater.half')").fetchone() == (None,)
    assert pending(conn) == []


def test_two_runs_at_once_apply_each_migration_once(database: str) -> None:
    applied: list[int] = []

    def run() -> None:
        with connect(database) as conn:
            applied.append(len(migrate(conn)))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == [0, 0, 0, len(migrations())]


def test_a_role_that_may_not_create_the_schema_is_told_what_to_ask_for(
    database: str, conn: Connection, source_name: str
) -> None:
    role = f"role_{source_name}"
    conn.execute(f"create role {role} login".encode())
    try:
        with connect(psycopg.conninfo.make_conninfo(database, user=role)) as poor:
            with pytest.raises(SourceError, match=f"CREATE SCHEMA headwater AUTHORIZATION {role}"):
                migrate(poor)
            conn.execute(f"create schema headwater authorization {role}".encode())
            assert migrate(poor) == migrations()
    finally:
        conn.execute(f"drop owned by {role}".encode())
        conn.execute(f"drop role {role}".encode())


def test_a_snapshots_state_goes_from_nothing_through_running_to_complete(
    conn: Connection,
) -> None:
    assert state.read_state(conn, "shop") is None
    migrate(conn)
    assert state.read_state(conn, "shop") is None
    first = state.begin(conn, "shop", "slot")
    table = TableRecord("public", "t", "shape", 5, "topic", 0, finished=False)
    chunk = Chunk("public", "t", 1, 16384, "file", 0, None)
    Ledger(conn, first).plan(table, [chunk])
    second = state.begin(conn, "shop", "slot")
    assert state.table_rows(conn, first) == {}
    assert state.read_state(conn, "shop") == state.SnapshotState(second, "slot", "running", None)
    ledger = Ledger(conn, second)
    ledger.plan(table, [chunk])
    ledger.done([chunk], 0x1_0000_0010, 8)
    ledger.finish("public", "t")
    state.complete(conn, second, 0x1_0000_0010)
    complete = state.SnapshotState(second, "slot", "complete", 0x1_0000_0010)
    assert state.read_state(conn, "shop") == complete
    assert state.table_rows(conn, second) == {"public.t": 8}
