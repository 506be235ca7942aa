"""A session beside the stream: it writes heartbeats and looks at what the slot holds back.

A thread of its own, because a server that does not answer must not keep the capture loop from its
feedback. It shares nothing with the loop but what ``seen`` hands over, and its faults end nothing:
they are logged, and it tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Final, NamedTuple

import structlog

from cdc.errors import HeadwaterError
from cdc.events.heartbeat import HEARTBEAT
from cdc.log_events import LogEvent
from cdc.source.disk import free_bytes
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, connect, literal, run_watched

EVERY_S: Final = 10.0
"""How often the slot is looked at when heartbeats are off."""
ANSWER_S: Final = 10.0
"""How long the server may take for one question before the session is given up."""
_LONGEST_BACKOFF_S: Final = 60.0
_DENIED: Final = "42501"

log = structlog.get_logger("capture")

# LSNs as byte counts; a standby has no WAL of its own to write to.
_SLOT = """
select pg_catalog.pg_is_in_recovery(),
       pg_catalog.pg_wal_lsn_diff(w.lsn, s.restart_lsn)::bigint,
       pg_catalog.pg_wal_lsn_diff(w.lsn, s.confirmed_flush_lsn)::bigint,
       s.wal_status, s.safe_wal_size, s.active_pid, a.wait_event,
       pg_catalog.concat_ws(', ', nullif(a.state, ''),
           'waits for ' || nullif(pg_catalog.concat_ws('/', a.wait_event_type, a.wait_event), ''),
           'sent up to ' || r.sent_lsn::text),
       (select setting from pg_catalog.pg_settings where name = 'data_directory')
from (select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                  else pg_catalog.pg_current_wal_lsn() end) w (lsn)
left join pg_catalog.pg_replication_slots s on s.slot_name = {slot}
left join pg_catalog.pg_stat_activity a on a.pid = s.active_pid
left join pg_catalog.pg_stat_replication r on r.pid = s.active_pid
"""
_BEAT = "select pg_catalog.pg_logical_emit_message(true, {prefix}, {content})"


class Observation(NamedTuple):
    """What the server said of the slot at one moment, in bytes; None where it does not apply."""

    retained: int | None
    """WAL from ``restart_lsn`` to the end: what the slot keeps on the disk."""
    unconfirmed: int | None
    wal_status: str | None
    safe_wal_size: int | None
    """What may be written before ``max_slot_wal_keep_size`` takes the slot's WAL away."""
    pid: int | None
    """The process that serves the slot."""
    wait_event: str | None
    """What it waits for; None while it computes."""
    walsender: str
    """What the process that serves the slot does, for people."""
    disk_free: int | None
    """Where the server's WAL is, when that is on this machine."""
    seen_at: float = 0.0
    """By the monotonic clock."""


class Watch:
    """The thread. ``seen`` is called in it with every observation."""

    def __init__(
        self,
        dsn: str,
        slot: str,
        heartbeat_s: float,
        seen: Callable[[Observation], None],
        nonce: str = "",
    ) -> None:
        self._dsn = dsn
        self._slot = slot
        self.beats = heartbeat_s > 0
        self.every_s = heartbeat_s or EVERY_S
        self._seen = seen
        self._nonce = nonce
        self._ending = threading.Event()
        self._conn: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin; the first heartbeat is written at once."""
        self._thread.start()

    def close(self) -> None:
        """Ask it to end. A question that has no answer yet is not waited for."""
        self._ending.set()

    def _run(self) -> None:
        wait_s, failed = 0.0, False
        while not self._ending.wait(wait_s):
            try:
                self._turn()
                wait_s, failed = self.every_s, False
            except HeadwaterError as error:
                self._disconnect()
                wait_s = min(2 * wait_s if failed else self.every_s, _LONGEST_BACKOFF_S)
                if not (failed or self._ending.is_set()):
                    log.warning(LogEvent.HEARTBEAT_FAILED, reason=str(error), again_in_s=wait_s)
                failed = True
        self._disconnect()

    def _turn(self) -> None:
        """Look at the slot, then write a heartbeat. Raises ``HeadwaterError``."""
        if self._conn is None:
            self._conn = connect(self._dsn, application_name="headwater heartbeat")
            # A heartbeat needs no standby's word, and must not wait for one that is away.
            with translated("opening the session of heartbeats"):
                self._conn.execute("set synchronous_commit to local")
        row = self._ask(_SLOT.format(slot=literal(self._slot)), "looking at the slot")
        pid = self._conn.info.backend_pid
        self._seen(
            Observation(
                _number(row[1]),
                _number(row[2]),
                _text(row[3]),
                _number(row[4]),
                _number(row[5]),
                _text(row[6]),
                _text(row[7]) or "no process serves the slot",
                free_bytes(_text(row[8]), pid),
                monotonic(),
            )
        )
        if self.beats and row[0] == b"t":
            self._without_beats("the server is a standby, which cannot write WAL")
        if self.beats:
            self._beat()

    def _beat(self) -> None:
        content = literal(f"{time_ns() // 1_000_000} {self._nonce}")
        try:
            self._ask(_BEAT.format(prefix=literal(HEARTBEAT), content=content), "a heartbeat")
        except HeadwaterError as error:
            if sqlstate(error) != _DENIED:
                raise
            self._without_beats(
                "the role may not: GRANT EXECUTE ON FUNCTION "
                "pg_logical_emit_message(boolean, text, text) TO the role of source.dsn"
            )

    def _without_beats(self, why: str) -> None:
        self.beats = False
        log.warning(LogEvent.HEARTBEATS_OFF, reason=why)

    def _ask(self, query: str, doing: str) -> tuple[bytes | None, ...]:
        assert self._conn is not None
        try:
            return run_watched(
                self._conn,
                query,
                doing,
                timeout_s=ANSWER_S,
                on_wait=self._still_wanted,
                every_s=0.5,
            )
        except HeadwaterError:
            self._disconnect()
            raise

    def _still_wanted(self, _waited_s: float) -> None:
        if self._ending.is_set():
            raise HeadwaterError("capture ends")

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _number(value: bytes | None) -> int | None:
    return None if value is None else int(value)
