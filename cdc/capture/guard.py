"""What keeps the source safe and capture honest: WAL that is held back, and heartbeats that fail.

``Watch`` looks, in its thread; ``Guard`` judges, in the capture loop, also while Kafka is away or
the stream is being opened again.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from secrets import token_hex
from time import monotonic, time
from typing import Final

import structlog

from cdc.capture.reconciliation import REBUILD
from cdc.capture.source_probe import Observation, Watch
from cdc.config import Capture, Config
from cdc.errors import HeadwaterError, SourceError
from cdc.events.heartbeat import Heartbeat, Pulse
from cdc.log_events import LogEvent
from cdc.source.bounded_query import asking
from cdc.source.postgres import connect
from cdc.source.replication import ReplicationStream
from cdc.source.slot import BusySlotError, drop_slot, end_sender, slot_state

OVERDUE: Final = 3
"""Heartbeats that may be missing before it is said."""
_WARN_EVERY_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.5
_NEARLY_LOST: Final = 0.8
"""Share of ``max_slot_wal_keep_size`` above which the slot is in danger."""
_NOTICEABLE: Final = 100
"""Less than one part in so many is no progress, but the noise between two looks."""
_DROP_S: Final = 10.0
_TAKEN_S: Final = 0.5
_FOR_US: Final = ("WalSenderMain", "WalSenderWaitForWal", "WalSenderWriteData", "ClientRead")
"""A WAL sender that waits for one of these has nothing to do, or cannot reach us."""

log = structlog.get_logger("capture")


class WalLimitError(SourceError):
    """The slot holds back more than the configuration lets it."""


def danger(seen: Observation, capture: Capture) -> str | None:
    """Why somebody should look at the slot; None when all is well. Pure."""
    retained = seen.retained or 0
    if seen.wal_status in ("unreserved", "lost"):
        return f"wal_status is {seen.wal_status}: the next checkpoint may take the slot's WAL away"
    if seen.safe_wal_size is not None:
        share = retained / max(1, retained + seen.safe_wal_size)
        if share > _NEARLY_LOST:
            return f"{share:.0%} of max_slot_wal_keep_size is used: beyond it the slot is lost"
    if retained > capture.wal_warn_mb << 20:
        return f"the slot holds back more than capture.wal_warn_mb = {capture.wal_warn_mb}"
    return None


def beyond(seen: Observation, capture: Capture) -> str | None:
    """Which limit is passed, as the end of a sentence; None when none is. Pure.

    A full disk is the slot's doing only as far as the slot holds it back.
    """
    retained = seen.retained or 0
    if capture.wal_limit_mb is not None and retained > capture.wal_limit_mb << 20:
        return f"more than capture.wal_limit_mb = {capture.wal_limit_mb}"
    floor = capture.disk_free_mb << 20
    if seen.disk_free is not None and seen.disk_free < floor <= retained:
        return (
            f"and the source's disk has {seen.disk_free >> 20} MB left, less than "
            f"capture.disk_free_mb = {capture.disk_free_mb}"
        )
    return None


def catching_up(before: Observation | None, seen: Observation) -> bool:
    """Whether what the slot holds back shrinks: a capture that was away for long begins beyond
    every limit, and is the way out of it. True without anything to compare with. Pure."""
    if before is None:
        return True
    shrunk = max(
        (before.retained or 0) - (seen.retained or 0),
        (before.unconfirmed or 0) - (seen.unconfirmed or 0),
    )
    return shrunk * _NOTICEABLE > (seen.retained or 0)


class Guard:
    """One for a run of capture. Everything but ``_note`` is called by the loop."""

    def __init__(self, config: Config, last_heartbeat_ms: int | None) -> None:
        source, self._capture = config.source, config.capture
        self._dsn, self._slot = source.dsn, source.slot_name
        self.pulse = Pulse(last_heartbeat_ms)
        self.nonce = token_hex(8)
        """What this run's heartbeats are known by."""
        every_s = self._capture.heartbeat_s
        self._watch = Watch(source.dsn, source.slot_name, every_s, self._note, self.nonce)
        self._observation: Observation | None = None
        self._judged: Observation | None = None
        self._unjudged = threading.Event()
        self._look_at = 0.0
        self._warn_at: dict[str, float] = {}
        self._began_s = time()

    def start(self) -> None:
        """Begin to watch."""
        self._began_s = time()
        self._watch.start()

    def close(self) -> None:
        """Watch no longer."""
        self._watch.close()

    def seen(self, beat: Heartbeat | None) -> None:
        """The newest heartbeat of the stream."""
        self.pulse.seen(beat)

    def check(self, kafka_silent_since: str = "") -> None:
        """Judge what was seen since the last call; cheap. ``kafka_silent_since``: since when Kafka
        acknowledges nothing, empty while it does. Raises ``WalLimitError``."""
        now = monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        self._check_heartbeat(now, kafka_silent_since)
        if self._unjudged.is_set() and self._observation is not None:
            self._unjudged.clear()
            self._judge(self._observation, now)

    def busy(self, pid: int) -> bool:
        """Whether the WAL sender ``pid`` was lately seen to work: it then answers nothing for as
        long as it decodes what nobody captures, and would begin again in another session."""
        seen = self._observation
        if seen is None or seen.pid != pid or seen.wait_event in _FOR_US:
            return False
        return monotonic() - seen.seen_at < 2 * self._watch.every_s + 1

    def end_sender(self, pid: int) -> None:
        """Our own session that broke: the server may take minutes to notice by itself."""
        with suppress(HeadwaterError), connect(self._dsn) as conn:
            end_sender(conn, self._slot, pid)

    def taken(self, stream: ReplicationStream, confirmed: int) -> None:
        """Wait, ``_TAKEN_S`` at most, until the server has read the last feedback: one that sends
        reads only when nobody takes what it sends, and not any more when the connection is gone."""
        if not select.select([stream], [], [], 0)[0]:
            return  # it sends nothing
        pause, deadline = threading.Event(), monotonic() + _TAKEN_S
        with suppress(HeadwaterError), asking(self._dsn, _TAKEN_S) as conn:
            while monotonic() < deadline:
                state = slot_state(conn, self._slot)
                if state is None or (state.confirmed_flush or 0) >= confirmed:
                    return
                pause.wait(0.01)

    def carried_out(self, limit: WalLimitError) -> SourceError:
        """The error that capture ends with, once the slot is dropped if that was the wish."""
        if self._capture.wal_limit_action != "drop":
            return limit
        try:
            _drop(self._dsn, self._slot)
        except HeadwaterError as error:
            return SourceError(
                f"{limit.message}; it could not be dropped: {error.message}",
                f"run `SELECT pg_drop_replication_slot('{self._slot}')`, then {REBUILD}",
            )
        return SourceError(f"{limit.message}; it was dropped to protect the source's disk", REBUILD)

    def _note(self, observation: Observation) -> None:
        self._observation = observation
        self._unjudged.set()

    def _judge(self, seen: Observation, now: float) -> None:
        if seen.retained is None:
            return  # no slot, or nothing in it yet: reconciliation speaks of that
        before, self._judged = self._judged, seen
        passed = beyond(seen, self._capture)
        acts = self._capture.wal_limit_action != "warn" and not catching_up(before, seen)
        if passed is not None and acts:
            raise WalLimitError(
                f"slot {self._slot} holds back {seen.retained >> 20} MB of WAL, {passed}",
                "find out what capture waits for, free disk space or raise the limit, then "
                "start capture again; to release the WAL at once, run `SELECT "
                f"pg_drop_replication_slot('{self._slot}')`, then `headwater init --again`",
            )
        reason = passed or danger(seen, self._capture)
        if reason is not None and self._may_warn("wal", now):
            log.warning(
                LogEvent.SLOT_RETAINS_WAL,
                slot=self._slot,
                retained_mb=seen.retained >> 20,
                unconfirmed_mb=(seen.unconfirmed or 0) >> 20,
                wal_status=seen.wal_status,
                reason=reason,
                walsender=seen.walsender,
            )

    def _check_heartbeat(self, now: float, kafka_silent_since: str) -> None:
        every_s = self._capture.heartbeat_s
        last_s = max(self._began_s, (self.pulse.durable_ms or 0) / 1000)
        age_s = time() - last_s
        if not self._watch.beats or age_s <= OVERDUE * every_s or not self._may_warn("beat", now):
            return
        seen = self._observation
        log.warning(
            LogEvent.HEARTBEAT_OVERDUE,
            age_s=round(age_s),
            expected_every_s=every_s,
            walsender=seen.walsender if seen else "not known",
            kafka=(
                f"acknowledges nothing since {kafka_silent_since}"
                if kafka_silent_since
                else "lets nothing wait"
            ),
        )

    def _may_warn(self, kind: str, now: float) -> bool:
        if now < self._warn_at.get(kind, 0.0):
            return False
        self._warn_at[kind] = now + _WARN_EVERY_S
        return True


def _drop(dsn: str, slot: str) -> None:
    """Drop the slot as soon as the server has seen that our stream ended."""
    deadline = monotonic() + _DROP_S
    pause = threading.Event()
    with connect(dsn) as conn:
        while True:
            try:
                drop_slot(conn, slot)
                return
            except BusySlotError:
                if monotonic() > deadline:
                    raise
                pause.wait(0.1)
                state = slot_state(conn, slot)
                if state is not None and state.active_pid is not None:
                    # It may be stuck in writing to us; nobody else can hold the slot.
                    end_sender(conn, slot, state.active_pid)
