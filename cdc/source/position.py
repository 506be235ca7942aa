"""Where the source's WAL stands, and how what stands in it is made to come at once."""

from __future__ import annotations

from time import time_ns
from typing import Final

from cdc.errors import HeadwaterError
from cdc.events.heartbeat import HEARTBEAT
from cdc.lsn import parse_lsn
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, literal

CURRENT_LSN: Final = (
    "select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() "
    "else pg_catalog.pg_current_wal_insert_lsn() end::text"
)
"""Above every commit that a session could have seen: an asynchronous one (``synchronous_commit``
off) is not in the WAL's file yet, so what is written and what is flushed lie below it. On a standby
what it has replayed."""
_MAY_NOT: Final = ("42501", "25006", "55000")
"""No right to, a session that only reads, a server that is in recovery."""


def current_lsn(conn: Connection) -> int:
    """The LSN below which everything stands that was committed before this question."""
    with translated("reading the source's WAL position"):
        row = conn.execute(CURRENT_LSN).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def nudge(conn: Connection) -> bool:
    """Commit a heartbeat, so that capture gets past everything that was in WAL before it.

    Without one, WAL that nobody flushes (an open transaction's, or the head of a new page) is
    decoded only when something else commits. Capture publishes nothing of it, and does not count
    it. False where this server or role may not write: a standby, a missing right.
    """
    content = literal(str(time_ns() // 1_000_000))
    try:
        with translated("writing a heartbeat"), conn.transaction():
            conn.execute("set local synchronous_commit to local")  # waits for no standby
            prefix = literal(HEARTBEAT)
            query = f"select pg_catalog.pg_logical_emit_message(true, {prefix}, {content})"
            conn.execute(query.encode())
    except HeadwaterError as error:
        if sqlstate(error) in _MAY_NOT:
            return False
        raise
    return True
