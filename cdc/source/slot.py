"""The replication slot: its state, its creation with an exported snapshot, and its end.

A slot is what PostgreSQL remembers of capture: it keeps WAL from ``restart_lsn`` on. Creating it
waits for every transaction that runs at that moment, and with ``SNAPSHOT 'export'`` yields a
consistent point L and a snapshot that sees exactly the transactions committed below L.
https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from cdc.errors import HeadwaterError, SourceError
from cdc.lsn import parse_lsn
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, connect, identifier, run_watched

PLUGIN = "pgoutput"
CREATE_TIMEOUT_S = 300.0
FAILOVER_SINCE = 170000
"""The first version of the server whose slots standbys can synchronise."""

_LSN_COLUMNS = "s.restart_lsn::text, s.confirmed_flush_lsn::text"
_BLOCKERS = """
select a.pid, coalesce(extract(epoch from pg_catalog.now() - a.xact_start), -1)::float8,
       coalesce(nullif(a.application_name, ''), 'unnamed'),
       coalesce(to_char(a.query_start at time zone 'UTC', 'HH24:MI:SS'), 'unknown')
from pg_catalog.pg_stat_activity w
cross join unnest(pg_catalog.pg_blocking_pids(w.pid)) b (pid)
join pg_catalog.pg_stat_activity a on a.pid = b.pid
where w.pid = %s
union all
select 0, extract(epoch from pg_catalog.now() - p.prepared)::float8, 'prepared ' || p.gid,
       'unknown'
from pg_catalog.pg_prepared_xacts p
where 0 = any(pg_catalog.pg_blocking_pids(%s))
"""
_IDENTIFY = """
select c.system_identifier::text,
       case when pg_catalog.pg_is_in_recovery()
            then (select timeline_id from pg_catalog.pg_control_checkpoint())
            else ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()),
                                1, 8))::bit(32)::int end,
       pg_catalog.current_database()
from pg_catalog.pg_control_system() c
"""
_IN_USE = "55006"
_FAILURES = {
    "42710": "run `headwater check` to see whose it is, drop it, or set source.slot",
    "53400": "no replication slot is free: raise max_replication_slots, or drop one that is "
    "not needed (SELECT slot_name, active FROM pg_replication_slots)",
    "55000": "set wal_level = logical in postgresql.conf and restart PostgreSQL",
    "42501": "ALTER ROLE ... REPLICATION for the role of source.dsn",
}


@dataclass(frozen=True, slots=True)
class SlotState:
    """A row of ``pg_replication_slots``. LSNs are None while the slot has none.

    ``wal_status`` is reserved, extended, unreserved or lost. ``safe_wal_size`` is in bytes, None
    without a limit. ``invalidation_reason`` exists since 17 (None means valid or unknown),
    ``failover`` since 17.
    """

    name: str
    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    restart_lsn: int | None
    confirmed_flush: int | None
    wal_status: str | None
    safe_wal_size: int | None
    invalidation_reason: str | None
    failover: bool

    @property
    def lost(self) -> bool:
        """The server has removed WAL that the slot needs, or has invalidated the slot."""
        return self.wal_status == "lost" or self.invalidation_reason is not None


class SourceIdentity(NamedTuple):
    """Which cluster, which history of it, which database."""

    system_id: str
    timeline: int
    database: str


class ExportedSlot(NamedTuple):
    """``snapshot_name`` can be imported while the session that exported it does nothing else."""

    consistent_point: int
    snapshot_name: str


class BusySlotError(SourceError):
    """A session uses the slot, or did at the moment it was to be dropped."""


def slot_state(conn: Connection, name: str) -> SlotState | None:
    """The slot as the server sees it, None when there is none of that name."""
    recent = (
        "s.invalidation_reason, s.failover"
        if conn.info.server_version >= FAILOVER_SINCE
        else "null::text, false"
    )
    query = (
        f"select s.slot_name, s.plugin, s.database, s.active, s.active_pid, {_LSN_COLUMNS}, "
        f"s.wal_status, s.safe_wal_size, {recent} "
        "from pg_catalog.pg_replication_slots s where s.slot_name = %s"
    )
    with translated(f"reading slot {name}"):
        row = conn.execute(query, (name,)).fetchone()
    if row is None:
        return None
    restart, confirmed = (None if text is None else parse_lsn(text) for text in row[5:7])
    return SlotState(
        name=row[0],
        plugin=row[1],
        database=row[2],
        active=row[3],
        active_pid=row[4],
        restart_lsn=restart,
        confirmed_flush=confirmed,
        wal_status=row[7],
        safe_wal_size=row[8],
        invalidation_reason=row[9],
        failover=row[10],
    )


def identify(conn: Connection) -> SourceIdentity:
    """What a slot position is valid for; compared at every start."""
    with translated("identifying the source"):
        row = conn.execute(_IDENTIFY).fetchone()
    assert row is not None
    return SourceIdentity(*row)


@contextmanager
def create_slot(
    dsn: str,
    name: str,
    *,
    temporary: bool = False,
    failover: bool = False,
    timeout_s: float = CREATE_TIMEOUT_S,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Iterator[ExportedSlot]:
    """Create a slot; inside the block its exported snapshot can be imported.

    A permanent slot stays after the block, a temporary one ends with it. The server waits for
    the transactions that run now: ``on_wait`` gets a line that names them every two seconds.
    Raises ``SourceError`` when the server refuses or ``timeout_s`` passes; no slot is left then.
    """
    with (
        connect(dsn, application_name="headwater slot", replication=True) as session,
        connect(dsn, application_name="headwater") as observer,
    ):
        pid = session.info.backend_pid

        def report(waited_s: float) -> None:
            on_wait(_waiting(observer, pid, waited_s))

        doing = f"creating slot {name}"
        with translated(doing):
            session.execute("SET lock_timeout = 0")  # the wait is a lock; timeout_s bounds it
        command = _creation(name, session.info.server_version, temporary, failover)
        try:
            row = run_watched(session, command, doing, timeout_s=timeout_s, on_wait=report)
        except HeadwaterError as error:
            if hint := _FAILURES.get(sqlstate(error)):
                raise SourceError(error.message, hint) from error
            raise
        observer.close()
        yield ExportedSlot(parse_lsn(_text(row[1])), _text(row[2]))


def drop_slot(conn: Connection, name: str) -> bool:
    """Drop the slot; False when there was none. Raises ``BusySlotError`` while it is in use."""
    state = slot_state(conn, name)
    if state is None:
        return False
    hint = "stop the capture process that reads it, then try again"
    if state.active:
        raise BusySlotError(f"slot {name} is in use by the server process {state.active_pid}", hint)
    try:
        with translated(f"dropping slot {name}"):
            conn.execute("select pg_catalog.pg_drop_replication_slot(%s)", (name,))
    except HeadwaterError as error:
        if sqlstate(error) == _IN_USE:
            raise BusySlotError(error.message, hint) from error
        raise
    return True


def end_sender(conn: Connection, name: str, pid: int) -> None:
    """End the process ``pid`` if it still serves the slot; one of the same role may be ended."""
    with translated(f"ending process {pid}, which serves slot {name}"):
        conn.execute(
            "select pg_catalog.pg_terminate_backend(s.active_pid) "
            "from pg_catalog.pg_replication_slots s where s.slot_name = %s and s.active_pid = %s",
            (name, pid),
        )


def _creation(name: str, version: int, temporary: bool, failover: bool) -> str:
    if failover and version < FAILOVER_SINCE:
        raise SourceError(
            f"slot {name}: failover slots need PostgreSQL 17", "set source.failover = false"
        )
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    options = "EXPORT_SNAPSHOT"
    if version >= 150000:
        options = "(SNAPSHOT 'export', FAILOVER true)" if failover else "(SNAPSHOT 'export')"
    return f"CREATE_REPLICATION_SLOT {identifier(name)} {kind} {PLUGIN} {options}"


def _waiting(observer: Connection, pid: int, waited_s: float) -> str:
    with translated("looking for the transactions that slot creation waits for"):
        rows = observer.execute(_BLOCKERS, (pid, pid)).fetchall()
    blockers = [
        f"process {blocker} ({application}), open for "
        + (f"{age_s:.0f} s" if age_s >= 0 else "an unknown time")
        + f", its last query at {query} UTC"
        for blocker, age_s, application, query in rows
    ]
    what = "; ".join(blockers) or "the server"
    return f"slot creation has waited {waited_s:.0f} s for running transactions: {what}"


def _text(value: bytes | None) -> str:
    assert value is not None
    return value.decode()
