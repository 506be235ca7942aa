"""The slot at one moment, seen from the server: its positions, its WAL sender and what it spills.

Every figure is of one statement, so that two of them can be compared. Works on a standby, too.
https://www.postgresql.org/docs/current/monitoring-stats.html
"""

from __future__ import annotations

from time import time
from typing import Any, Final, NamedTuple

from cdc.lsn import parse_lsn
from cdc.source.disk import wal_volume
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.slot import FAILOVER_SINCE

_QUERY: Final = """
select w.lsn::text,
       pg_catalog.pg_current_snapshot()::text,
       extract(epoch from pg_catalog.clock_timestamp())::float8,
       s.slot_name is not null,
       s.active_pid,
       r.sent_lsn::text,
       s.confirmed_flush_lsn::text,
       s.restart_lsn::text,
       s.wal_status,
       s.safe_wal_size,
       {recent},
       t.spill_txns,
       t.spill_bytes,
       pg_catalog.concat_ws('/', a.wait_event_type, a.wait_event),
       pg_catalog.age(s.catalog_xmin),
       (select extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.min(o.xact_start))
        from pg_catalog.pg_stat_activity o where o.backend_xid is not null)::float8,
       pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
       (select setting from pg_catalog.pg_settings where name = 'data_directory'),
       pg_catalog.pg_backend_pid()
from (select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                  else pg_catalog.pg_current_wal_lsn() end) w (lsn)
left join pg_catalog.pg_replication_slots s on s.slot_name = %s
left join pg_catalog.pg_stat_replication_slots t on t.slot_name = s.slot_name
left join pg_catalog.pg_stat_activity a on a.pid = s.active_pid
left join pg_catalog.pg_stat_replication r on r.pid = s.active_pid
"""


class SlotActivity(NamedTuple):
    """LSNs, sizes in bytes and times in seconds since 1970; None where there is nothing of it."""

    wal_end: int
    """The newest LSN of the server."""
    transactions: str
    """PostgreSQL's snapshot: while it is the same, no transaction has written anything."""
    clock_s: float
    exists: bool
    pid: int | None = None
    """The process that serves the slot; None while no capture is connected."""
    sent: int | None = None
    confirmed: int | None = None
    restart: int | None = None
    wal_status: str | None = None
    safe_wal_size: int | None = None
    """What may be written before ``max_slot_wal_keep_size`` takes the slot's WAL away."""
    invalidation_reason: str | None = None
    """Since PostgreSQL 17, as ``inactive_since_s``."""
    inactive_since_s: float | None = None
    spilled_transactions: int | None = None
    spilled_bytes: int | None = None
    """What decoding wrote to the server's disk: it did not fit ``logical_decoding_work_mem``."""
    wait_event: str = ""
    """What the WAL sender waits for; empty while it computes, and without one."""
    catalog_xmin_age: int | None = None
    """Transactions whose dead rows in catalogs the slot keeps from being vacuumed."""
    oldest_transaction_s: float | None = None
    """For how long the oldest transaction that has written is open: it holds ``restart`` back."""
    sees_others: bool = True
    """Whether the role may see what other sessions do (pg_read_all_stats). Without it ``sent`` and
    ``oldest_transaction_s`` are None, which then says nothing."""
    volume_bytes: int | None = None
    """Size of the file system with the server's WAL, if it is of this machine, or was declared."""
    volume_free_bytes: int | None = None
    """At most: of a size that was declared, what retained WAL leaves."""
    clock_ahead_s: float | None = None
    """By how much ``clock_s`` is ahead of the clock of this machine halfway through the query."""

    @property
    def retained_bytes(self) -> int | None:
        """WAL that the server keeps because of the slot."""
        return self._behind(self.restart)

    @property
    def unconfirmed_bytes(self) -> int | None:
        return self._behind(self.confirmed)

    @property
    def lost(self) -> bool:
        """The server has removed WAL that the slot needs, or has invalidated the slot."""
        return self.wal_status == "lost" or self.invalidation_reason is not None

    def on_volume(self, declared_bytes: int | None) -> SlotActivity:
        """As of a WAL volume of a size that somebody declared, if somebody did. Nobody can look at
        that of another machine, but retained WAL is on it."""
        retained, free = self.retained_bytes, self.volume_free_bytes
        if declared_bytes is None:
            return self
        if retained is not None:
            left = max(0, declared_bytes - retained)
            free = left if free is None else min(free, left)
        return self._replace(volume_bytes=declared_bytes, volume_free_bytes=free)

    def _behind(self, lsn: int | None) -> int | None:
        return None if lsn is None else max(0, self.wal_end - lsn)


def slot_activity(conn: Connection, name: str) -> SlotActivity:
    """What the server says now; of a slot that is not there, only the server's own figures."""
    version = conn.info.server_version
    recent = (
        "s.invalidation_reason, extract(epoch from s.inactive_since)::float8"
        if version >= FAILOVER_SINCE
        else "null::text, null::float8"
    )
    with translated(f"looking at slot {name}"):
        asked_s = time()
        row = conn.execute(_QUERY.format(recent=recent), (name,)).fetchone()
        halfway_s = (asked_s + time()) / 2
    assert row is not None
    found = _of_row(row)
    return found._replace(clock_ahead_s=found.clock_s - halfway_s)


def _of_row(row: tuple[Any, ...]) -> SlotActivity:
    wal, transactions, clock_s, exists, pid, sent, confirmed, restart, *rest, folder, own_pid = row
    found: list[Any] = [
        None if lsn is None else parse_lsn(lsn) for lsn in (sent, confirmed, restart)
    ]
    volume = wal_volume(folder, own_pid) or (None, None)
    return SlotActivity(parse_lsn(wal), transactions, clock_s, exists, pid, *found, *rest, *volume)
