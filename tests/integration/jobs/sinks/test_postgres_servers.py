"""PostgreSQL as a store: how it is reached, and servers that do not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from cdc.config import Postgres
from cdc.errors import RetryableError, SinkError
from jobs.sinks.postgres.client import Database
from jobs.sinks.stores import open_sink
from tests.support.events.batches import upsert
from tests.support.servers.proxy import proxied
from tests.support.servers.stores import LSN, OpenFeed, items
from tests.support.servers.tls import behind_tls

ITEMS = items()
ELSEWHERE = "127.1"
"""This machine, as only the resolver knows: not told from another one."""


@pytest.fixture
def base(store_database: str) -> Postgres:
    return Postgres(kind="postgres", dsn=store_database)


@pytest.fixture
def conn(store_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(store_database, autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"dbname": "not_there"}, "database does not exist. Run `CREATE DATABASE"),
        ({"user": "nobody_there"}, "role does not exist. Run `CREATE ROLE"),
        ({"sslmode": "require"}, "does not support SSL. Set `ssl = on`"),
        ({"host": ELSEWHERE}, "does not support SSL. Set `ssl = on`"),
    ],
)
def test_a_dsn_that_leads_nowhere_is_an_error_at_once(
    base: Postgres, change: dict[str, str], fault: str
) -> None:
    dsn = psycopg.conninfo.make_conninfo(base.dsn, **change)
    sink = open_sink(Postgres(kind="postgres", dsn=dsn), "v", None, retry_s=60)
    with pytest.raises(SinkError, match=fault):
        sink.prepare(ITEMS, ("id",))


def test_a_dsn_that_is_none_is_an_error_that_hides_it() -> None:
    sink = open_sink(Postgres(kind="postgres", dsn="host=a password='hunter2"), "v", None)
    with pytest.raises(SinkError, match="not a connection string") as error:
        sink.prepare(ITEMS, ("id",))
    assert "hunter2" not in str(error.value)


def test_it_is_reached_by_tls(base: Postgres, open_feed: OpenFeed, tmp_path: Path) -> None:
    with behind_tls(base.dsn, tmp_path) as dsn:
        feed = open_feed(Postgres(kind="postgres", dsn=dsn))
        feed.apply(upsert(LSN, id=1, name="a"))
        assert feed.values("name") == {1: "a"}
        feed.sink.close()
        other = tmp_path / "other.pem"
        other.write_bytes((tmp_path / "ca.pem").read_bytes().replace(b"A", b"B", 40))
        wrong = Postgres(kind="postgres", dsn=dsn.replace("ca.pem", "other.pem"))
        with pytest.raises(SinkError, match=r"certificate\. Check sslmode and sslrootcert"):
            open_sink(wrong, "v", None).prepare(ITEMS, ("id",))


def test_a_server_that_takes_no_writes_is_waited_for_and_named(
    base: Postgres, open_feed: OpenFeed, conn: psycopg.Connection[Any]
) -> None:
    feed = open_feed(base, retry_s=1)
    name = base.dsn.rsplit("/", 1)[1]
    conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    feed.sink.close()
    with pytest.raises(SinkError, match=r"accepts no writes.*is read-only"):
        feed.apply(upsert(LSN, id=1, name="a"))
    conn.execute("set default_transaction_read_only = off")
    conn.execute(f"alter database {name} reset default_transaction_read_only".encode())
    feed.apply(upsert(LSN, id=1, name="a"))
    assert feed.values("name") == {1: "a"}


def test_a_server_that_is_frozen_is_given_up_and_a_slow_one_is_not(
    base: Postgres, open_feed: OpenFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel goes on to acknowledge what is sent: no fault of TCP ends the wait."""
    monkeypatch.setattr("jobs.sinks.postgres.client.SILENT_S", 0.3)
    with proxied(base.dsn) as (dsn, proxy):
        feed = open_feed(Postgres(kind="postgres", dsn=f"{dsn}?connect_timeout=2"), retry_s=1)
        feed.apply(upsert(LSN, id=1, name="a"))
        asleep = Database(f"{dsn}?connect_timeout=2", 1).call(
            "t", lambda conn: conn.execute("select pg_sleep(1), 'woke'").fetchone()
        )
        assert asleep == ("", "woke")
        proxy.stall()
        began = time.monotonic()
        changes = [upsert(LSN + 1, id=1, name="b"), upsert(LSN + 1, 2, id=2, name="c")]
        with pytest.raises(RetryableError, match=r"does not answer\. Start it"):
            feed.apply(*changes)
        assert time.monotonic() - began < 30
        proxy.release()
        feed.replay(feed.number, *changes)
        assert feed.values("name") == {1: "b", 2: "c"}


def test_of_two_servers_the_one_that_is_frozen_is_left_for_the_other(
    base: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.sinks.postgres.client.SILENT_S", 0.3)
    with proxied(base.dsn) as (dsn, proxy):
        servers = [conninfo.conninfo_to_dict(one) for one in (dsn, base.dsn)]
        both = {name: ",".join(str(one[name]) for one in servers) for name in ("host", "port")}
        dsn = conninfo.make_conninfo(dsn, **both, connect_timeout=2)
        database = Database(dsn, 30)
        assert database.call("t", lambda conn: conn.execute("select 1").fetchone()) == (1,)
        proxy.stall()
        assert database.call("t", lambda conn: conn.execute("select 2").fetchone()) == (2,)
        proxy.release()
