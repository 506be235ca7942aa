"""The replication stream on a real server: plain on its socket, and by TLS through libpq."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from cdc.errors import RetryableError, SourceError
from cdc.source.replication import ReplicationStream, SlotInUseError, parse_keepalive
from tests.support.servers.proxy import proxied
from tests.support.servers.tls import behind_tls
from tests.support.waiting import wait_until

ROWS = 20_000
HUGE = 40_000_000
_READ_S = 180


@pytest.fixture
def slot(database: str, source_name: str) -> str:
    """A slot and a publication of this name, of the table ``item``."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create table item (id int primary key, body text)")
        conn.execute(f"create publication {source_name} for table item")
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (source_name,))
    return source_name


@contextmanager
def streaming(dsn: str, slot: str) -> Iterator[ReplicationStream]:
    """A stream from the slot, as soon as the server has seen the one before end."""

    def opened() -> ReplicationStream:
        try:
            return ReplicationStream(dsn, slot, slot, 0)
        except SlotInUseError as error:
            raise AssertionError(str(error)) from error

    stream = wait_until(opened, "the slot to be free")
    try:
        yield stream
    finally:
        stream.close()


def read(stream: ReplicationStream, commits: int) -> list[bytes]:
    """pgoutput's messages up to that many commits."""
    found: list[bytes] = []
    deadline = time.monotonic() + _READ_S
    while sum(frame[25:26] == b"C" for frame in found) < commits:
        assert time.monotonic() < deadline, f"{len(found)} frames in {_READ_S} s"
        arrived = stream.receive(500)
        if not arrived:
            select.select([stream], [], [], 1.0)
        skipped = set(arrived.keepalives)
        found += [arrived[i] for i in range(len(arrived)) if i not in skipped]
    return found


def fill(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "insert into item select i, md5(i::text) from generate_series(1, %s) i", (rows,)
        )
    with psycopg.connect(dsn) as conn:
        conn.execute("insert into item values (0, repeat('x', %s))", (HUGE,))


def test_both_ways_bring_the_same_frames(database: str, slot: str, tmp_path: Path) -> None:
    fill(database, ROWS)
    with streaming(database, slot) as stream:
        plain = [frame[25:] for frame in read(stream, 2)]
    assert sum(message[:1] == b"I" for message in plain) == ROWS + 1
    assert max(map(len, plain)) > HUGE
    with behind_tls(database, tmp_path) as encrypted, streaming(encrypted, slot) as stream:
        assert [frame[25:] for frame in read(stream, 2)] == plain


@pytest.mark.parametrize("tls", [False, True])
def test_feedback_is_heard_and_asked_for(
    database: str, slot: str, tmp_path: Path, tls: bool
) -> None:
    fill(database, 10)
    with (
        behind_tls(database, tmp_path) as encrypted,
        psycopg.connect(database, autocommit=True) as conn,
    ):
        row = conn.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        end = int(row[0])
        with streaming(encrypted if tls else database, slot) as stream:
            read(stream, 2)
            stream.feedback(end, end, time.time_ns() // 1000, ask=True)
            heard: list[int] = []

            def answered() -> bool:
                arrived = stream.receive(10)
                heard.extend(parse_keepalive(arrived[i]).wal_end for i in arrived.keepalives)
                return bool(heard)

            wait_until(answered, "the server's answer")
        confirmed = (
            "select confirmed_flush_lsn - '0/0'::pg_lsn >= %s from pg_replication_slots"
            " where slot_name = %s"
        )
        wait_until(lambda: conn.execute(confirmed, (end, slot)).fetchone() == (True,), "it")


@pytest.mark.parametrize("tls", [False, True])
def test_refusals_say_what_the_server_said(
    database: str, slot: str, tmp_path: Path, tls: bool
) -> None:
    with behind_tls(database, tmp_path) as encrypted:
        through = encrypted if tls else database
        with pytest.raises(SourceError, match='"absent" does not exist'):
            ReplicationStream(through, "absent", slot, 0)
        with streaming(through, slot) as stream, pytest.raises(SlotInUseError) as caught:
            ReplicationStream(through, slot, slot, 0)
        assert caught.value.pid == stream.pid


@pytest.mark.parametrize("tls", [False, True])
def test_the_servers_reason_is_told_after_its_last_frames(
    database: str, slot: str, tmp_path: Path, tls: bool
) -> None:
    fill(database, 10)
    with (
        behind_tls(database, tmp_path) as encrypted,
        streaming(encrypted if tls else database, slot) as stream,
    ):
        read(stream, 2)
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute("select pg_terminate_backend(%s)", (stream.pid,))
        with pytest.raises(RetryableError, match="ended the stream: FATAL: terminating connection"):
            wait_until(lambda: bool(stream.receive(10)) and False, "the end of the stream")


def test_a_connection_that_is_cut_is_lost(database: str, slot: str) -> None:
    with proxied(database) as (through, proxy), streaming(through, slot) as stream:
        proxy.cut()
        with pytest.raises(RetryableError, match="lost"):
            wait_until(lambda: bool(stream.receive(10)) and False, "the loss")
        with suppress(RetryableError):
            stream.feedback(0, 0, 0, ask=True)
