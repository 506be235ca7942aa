"""Reading tables in a slot's snapshot, on a real server; what would go to Kafka is kept here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import psycopg
import pytest

from cdc.config import Source
from cdc.errors import HeadwaterError, RetryableError
from cdc.events.envelope import SourceContext
from cdc.kafka.bulk import BulkProducer
from cdc.source.catalog import captured_tables
from cdc.source.postgres import Connection, connect
from cdc.source.publication import ensure_publication
from cdc.source.slot import create_slot
from migrations.runner import migrate
from snapshots import state
from snapshots.initial import InitialSnapshot, publish_snapshot


@dataclass
class Shop:
    """A source, and the events that its snapshot publishes, by topic."""

    dsn: str
    conn: Connection
    source: Source
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        timestamp_ms: int,
        partition: int = -1,
    ) -> None:
        """What ``BulkProducer`` does."""
        del keys, timestamp_ms, partition
        self.events.setdefault(topic, []).extend(json.loads(value) for value in values)

    def flush(self) -> None:
        pass

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def snapshot(self, *after_slot: str) -> dict[str, int]:
        """A whole snapshot; the statements run when it has been exported and nothing is read."""
        tables = captured_tables(self.conn, self.source)
        ensure_publication(self.conn, self.source.publication_name, tables)
        snapshot_id = state.begin(self.conn, self.source.name, self.source.slot_name)
        with create_slot(self.dsn, self.source.slot_name, temporary=True) as slot:
            self.run(*after_slot)
            run = InitialSnapshot(
                source=self.source,
                context=SourceContext("1", self.source.name, "db"),
                snapshot_id=snapshot_id,
                consistent_point=slot.consistent_point,
                snapshot_name=slot.snapshot_name,
                dirty={},
            )
            return publish_snapshot(run, tables, cast("BulkProducer", self), self.conn)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [e["after"] for e in self.events.get(f"{self.source.name}.public.{table}", [])]


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


def test_partitions_come_through_their_root_and_children_as_themselves(shop: Shop) -> None:
    shop.run(
        "create table public.root (id int primary key) partition by range (id)",
        "create table public.p1 partition of public.root for values from (0) to (10)",
        "create table public.p2 partition of public.root for values from (10) to (20)",
        "insert into public.root values (5), (15)",
        "create table public.parent (id int primary key)",
        "create table public.child (primary key (id)) inherits (public.parent)",
        "insert into public.parent values (1)",
        "insert into public.child values (2)",
    )
    counts = shop.snapshot()
    assert counts == {"public.child": 1, "public.parent": 1, "public.root": 2}
    assert shop.rows("parent") == [{"id": 1}]
    assert shop.rows("child") == [{"id": 2}]
    assert sorted(row["id"] for row in shop.rows("root")) == [5, 15]


@pytest.mark.parametrize(
    "change",
    ["alter table public.t alter column v type bigint", "truncate public.t"],
)
def test_a_table_rewritten_after_the_snapshot_is_an_error_not_an_empty_table(
    shop: Shop, change: str
) -> None:
    shop.run(
        "create table public.t (id int primary key, v int)", "insert into public.t values (1, 1)"
    )
    with pytest.raises(RetryableError, match=r"public\.t was rewritten or truncated"):
        shop.snapshot(change)


@pytest.mark.parametrize(
    "swap",
    [
        ("drop table public.item", "create table public.item (id int primary key, name text)"),
        (
            "create table public.fresh (id int primary key, name text)",
            "alter table public.item rename to old; alter table public.fresh rename to item",
        ),
    ],
)
def test_a_table_that_took_the_name_of_another_is_an_error(
    shop: Shop, swap: tuple[str, ...]
) -> None:
    shop.run(
        "create table public.item (id int primary key, name text)",
        "insert into public.item values (1)",
    )
    with pytest.raises(RetryableError, match="item"):
        shop.snapshot(*swap)


def test_a_column_added_after_the_snapshot_is_not_in_it(shop: Shop) -> None:
    shop.run(
        "create table public.t (id int primary key, v int)", "insert into public.t values (1, 1)"
    )
    shop.snapshot("alter table public.t add column later int default 7")
    assert shop.rows("t")[0]["v"] == 1


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
