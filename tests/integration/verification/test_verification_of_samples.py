"""What a comparison of some keys costs: short statements and few snapshots of the source, and of
the store their rows alone."""

from __future__ import annotations

from itertools import count
from typing import Any

import psycopg
import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from cdc.source.postgres import connect
from jobs.sinks.contract import ViewRow
from jobs.sinks.key_names import Keys
from tests.support.events.batches import upsert
from tests.support.servers.stores import OpenFeed, Store
from verification import key_walk, view_verification
from verification.key_walk import KeyWalk
from verification.scope import published_relations
from verification.select_view import described_view
from verification.source_rows import SourceSnapshot
from verification.view_verification import Verification


@pytest.fixture
def dsn(database: str) -> str:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create table customers (id int primary key, name text)")
        conn.execute("create publication p for table customers")
        conn.execute("insert into customers values (1, 'Ada'), (2, 'Bob')")
    return database


class Busy:
    """Kafka whose topics get records all the time."""

    def __init__(self) -> None:
        self._ends = count()

    def end_offsets(self, topics: Any) -> dict[str, dict[int, int]]:
        return {topic: {0: next(self._ends)} for topic in topics}


def test_no_session_of_a_sample_may_keep_the_source_busy(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_verification, "wait_until_applied", lambda *_, **__: None)
    monkeypatch.setattr(key_walk, "keys_given", lambda *_: 2)
    monkeypatch.setattr(key_walk, "keys_after", lambda *_: [("2",), ("3",)])
    limits: list[tuple[int, str]] = []

    def parked(source: SourceSnapshot) -> set[bytes]:
        row = source.conn.execute("show statement_timeout").fetchone()
        assert row is not None
        limits.append((source.lsn, row[0]))
        return set()

    with connect(dsn) as conn:
        sql, relations = "select id, name from customers", published_relations(conn, "p")
        view = described_view(conn, "v", ["id"], sql, relations)
    broker, walk, state = Busy(), KeyWalk(), Any
    report = Verification(
        dsn,
        "shop",
        "p",
        view,
        broker,  # type: ignore[arg-type]
        lambda _: [],
        timeout_s=30,
        limit=0,
        parked_keys=parked,
        sample=walk.keys(state, state),  # type: ignore[arg-type]
    ).run()
    assert {limit for _, limit in limits} == {"20s"}
    assert len({lsn for lsn, _ in limits}) == report.rounds == 2
    assert (report.sampled, report.skipped) == (3, [{"id": 1}, {"id": 2}])
    assert not report.equal
    assert walk.searches


def test_rounds_after_the_first_ask_the_store_for_what_is_undecided(
    dsn: str, store: Store, open_feed: OpenFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_verification, "wait_until_applied", lambda *_, **__: None)
    feed = open_feed(store, StructType().add("id", IntegerType()).add("name", StringType()))
    feed.apply(upsert(1, id=1, name="Eve"), upsert(1, 2, id=2, name="Bob"))
    asked: list[tuple[Keys | None, list[tuple[object, ...]]]] = []

    def scan(keys: Keys | None) -> list[ViewRow]:
        rows = list(feed.sink.scan(keys))
        asked.append((keys, sorted(row.key for row in rows)))
        return rows

    with connect(dsn) as conn:
        sql, relations = "select id, name from customers", published_relations(conn, "p")
        view = described_view(conn, "v", ["id"], sql, relations)
    busy: Any = Busy()
    report = Verification(dsn, "shop", "p", view, busy, scan, timeout_s=30, limit=0).run()
    assert (report.undecided, report.wrong, report.rows_read) == (1, 0, 2)
    assert asked == [(None, [(1,), (2,)]), *[([(1,)], [(1,)])] * 5]
