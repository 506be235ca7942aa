"""Slots on a real server: created, exported, waited for, refused, dropped."""

from __future__ import annotations

import re
import threading

import pytest

from cdc.errors import SourceError
from cdc.source.postgres import Connection, connect
from cdc.source.slot import create_slot, drop_slot, identify, slot_state
from tests.support.waiting import wait_until


@pytest.fixture
def name(source_name: str) -> str:
    return f"hw_{source_name}"


def gone(conn: Connection, name: str) -> None:
    """A server drops the slot of a session when it has seen that the session ended."""
    wait_until(lambda: slot_state(conn, name) is None, "the slot to be gone")


def test_the_exported_snapshot_sees_what_was_committed_before_and_nothing_after(
    database: str, name: str
) -> None:
    with connect(database) as conn, connect(database) as reader:
        conn.execute("create table public.t (id int primary key)")
        conn.execute("insert into public.t values (1)")
        with create_slot(database, name) as slot:
            conn.execute("insert into public.t values (2)")
            reader.execute("begin isolation level repeatable read read only")
            reader.execute(f"set transaction snapshot '{slot.snapshot_name}'".encode())
            assert reader.execute("select id from public.t").fetchall() == [(1,)]
        state = slot_state(conn, name)
        assert state is not None
        assert (state.plugin, state.active, state.wal_status) == ("pgoutput", False, "reserved")
        assert state.confirmed_flush == slot.consistent_point
        assert not state.lost
        assert drop_slot(conn, name)
        assert not drop_slot(conn, name)
        assert slot_state(conn, name) is None


def test_a_temporary_slot_ends_with_its_block(database: str, name: str) -> None:
    with connect(database) as conn:
        with create_slot(database, name, temporary=True):
            assert slot_state(conn, name) is not None
        gone(conn, name)


def test_a_second_slot_of_that_name_is_refused(database: str, name: str) -> None:
    with (
        create_slot(database, name),
        pytest.raises(SourceError, match=f'"{name}" already exists.*source.slot'),
        create_slot(database, name),
    ):
        pass


def test_waiting_for_a_transaction_names_it_and_ends_in_time(database: str, name: str) -> None:
    told: list[str] = []
    with connect(database, autocommit=False, application_name="the blocker") as blocker:
        blocker.execute("select pg_current_xact_id()")
        with (
            pytest.raises(SourceError, match=r"no answer within 6 s.*End the transactions"),
            create_slot(database, name, timeout_s=6, on_wait=told.append),
        ):
            pass
        blocker.rollback()
    assert told
    assert all("(the blocker), open for" in line for line in told)
    assert all(re.search(r"its last query at \d\d:\d\d:\d\d UTC", line) for line in told)
    with connect(database) as conn:
        gone(conn, name)


def test_creation_goes_on_when_the_transaction_ends(database: str, name: str) -> None:
    waited = threading.Event()
    with connect(database, autocommit=False) as blocker:
        blocker.execute("select pg_current_xact_id()")

        def end(_line: str) -> None:
            if not waited.is_set():
                waited.set()
                blocker.commit()

        with create_slot(database, name, timeout_s=120, on_wait=end) as slot:
            assert slot.consistent_point > 0
    assert waited.is_set()


def test_the_source_is_identified_by_cluster_timeline_and_database(database: str) -> None:
    with connect(database) as conn:
        identity = identify(conn)
    assert identity.system_id.isdigit()
    assert identity.timeline == 1
    assert identity.database == database.rsplit("/", 1)[1]
