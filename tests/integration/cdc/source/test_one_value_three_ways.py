"""One value, three encoders, the same bytes: the snapshot's, the stream's row by row and the
stream's by column, each on what a real PostgreSQL sends for it.

The rows go into a table; COPY and pgoutput give them back, as they do to ``init`` and to capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import pack

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from cdc.columnar import feed as columnar
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.snapshot import SnapshotEncoder
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Batch
from cdc.lsn import parse_lsn
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived
from cdc.source.catalog import relation, select_rows, table_facts
from cdc.source.postgres import WIRE_OPTIONS, Connection
from cdc.source.relations import describe
from cdc.source.types import load_types
from snapshots.table_reader import read_blocks
from tests.integration.cdc.source.test_values_against_postgres import CASES
from tests.support.values import MORE, TYPES

EXAMPLES = 10
ROWS = 12
CONTEXT = SourceContext("1", "s", "db")
NOW_US = 1_700_000_000_000_000
GROUP = 14
ALL = [*CASES, *MORE]
GROUPS = [ALL[i : i + GROUP] for i in range(0, len(ALL), GROUP)]


@pytest.fixture(scope="module")
def source(postgres: str) -> Iterator[Connection]:
    """A session with capture's settings, in a database with the types and a slot."""
    name = "three_ways"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        target = psycopg.conninfo.make_conninfo(postgres, dbname=name, options=WIRE_OPTIONS)
        with psycopg.connect(target, autocommit=True) as connection:
            with in_public(connection):
                connection.execute(TYPES)
                connection.execute("create table odd (id int)")
                connection.execute("create publication ways for all tables")
            connection.execute("select pg_create_logical_replication_slot('ways', 'pgoutput')")
            yield connection
            connection.execute("select pg_drop_replication_slot('ways')")
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def in_public(connection: Connection) -> Iterator[None]:
    """What a client does, whose search path is not capture's."""
    connection.execute("set search_path to public")
    yield
    connection.execute("set search_path to pg_catalog")


class Wide:
    """A table with a column of each type, and what each way makes of the rows put into it."""

    def __init__(self, connection: Connection, declarations: list[str]) -> None:
        self.connection = connection
        columns = ", ".join(f"v{i} {kind}" for i, kind in enumerate(declarations))
        casts = ", ".join(f"cast(v{i} as {kind})" for i, kind in enumerate(declarations))
        arrays_of_text = ", ".join(["%s::text[]"] * len(declarations))
        names = ", ".join(f"v{i}" for i in range(len(declarations)))
        self.insert = (
            f"insert into t select i, {casts}"
            f" from unnest({arrays_of_text}) with ordinality u ({names}, i)"
        )
        with in_public(connection):
            connection.execute("drop table if exists t")
            connection.execute(f"create table t (id int primary key, {columns})".encode())
        self.types = load_types(connection)
        row = connection.execute("select 'public.t'::regclass::oid").fetchone()
        assert row is not None
        self.shape = relation(connection, row[0], self.types, "ways")

    def put(self, rows: Sequence[Sequence[str | None]]) -> list[bytes]:
        """The frames of an insert of these rows alone."""
        with in_public(self.connection):
            self.connection.execute("truncate t")
        self.changes()
        with in_public(self.connection):
            self.connection.execute(
                self.insert.encode(), [list(c) for c in zip(*rows, strict=True)]
            )
        return self.changes()

    def changes(self) -> list[bytes]:
        """The frames since the last time."""
        rows = self.connection.execute(
            "select lsn::text, data from pg_logical_slot_get_binary_changes('ways', null, null,"
            " 'proto_version', '1', 'publication_names', 'ways')"
        )
        return [
            pack(">cQQQ", b"w", parse_lsn(lsn), parse_lsn(lsn), 0) + bytes(data)
            for lsn, data in rows
        ]

    def resolve(self, message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return describe(message, table_facts(self.connection, message.oid), self.types)

    def streamed(self, frames: list[bytes], by_column: bool) -> list[bytes]:
        made = Transcriber(CONTEXT, self.resolve, lambda _r, _k, _x: None, lambda _t: 1, 0)
        made.clock(NOW_US)
        if by_column:
            ColumnarFeed(made, CONTEXT, lambda _topic: 1).feed(Arrived.of(frames), NOW_US)
        else:
            for frame in frames:
                made.feed(frame)
        return [after(value) for value in values_of(made.take(), by_column)]

    def copied(self) -> list[bytes]:
        statement = select_rows(self.connection, self.shape, "r", "ways") + " order by id"
        encoder = SnapshotEncoder(self.shape, CONTEXT, 1, NOW_US)
        blocks = read_blocks(self.connection, f"COPY ({statement}) TO STDOUT", "reading t")
        return [after(value) for block in blocks for value in encoder.encode(*block)[1]]


def values_of(batch: Batch, by_column: bool) -> list[bytes]:
    """The events of table t; ``by_column`` says that they must have come as columns."""
    (records,) = (made for topic, made in batch.records.items() if topic.endswith(".t"))
    found: list[bytes] = []
    for record in records:
        assert isinstance(record, dict) != by_column
        values = [record["value"]] if isinstance(record, dict) else record.values
        found += [value for value in values if value is not None]
    return found


def after(value: bytes) -> bytes:
    return value.partition(b',"source":{"version":')[0]


@pytest.mark.parametrize("group", GROUPS, ids=[",".join(n for n, _ in g) for g in GROUPS])
def test_snapshot_and_both_ways_of_the_stream_give_the_same_bytes(
    source: Connection,
    group: list[tuple[str, st.SearchStrategy[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columnar, "LEAST_FRAMES", 1)
    table = Wide(source, [declaration for declaration, _ in group])
    row = st.tuples(*[st.none() | values for _, values in group])

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(row, min_size=1, max_size=ROWS))
    @example([(None,) * len(group)])
    def same(rows: list[tuple[str | None, ...]]) -> None:
        frames = table.put(rows)
        one_by_one = table.streamed(frames, by_column=False)
        assert len(one_by_one) == len(rows)
        assert table.copied() == one_by_one
        assert table.streamed(frames, by_column=True) == one_by_one

    same()
