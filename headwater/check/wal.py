"""Checks of what the source does with WAL for us: limits, delays, and the slot's health."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc.lsn import format_lsn
from cdc.source.errors import translated
from cdc.source.slot import PLUGIN, SlotState, slot_state
from headwater.check.finding import Finding
from headwater.check.source import Source

_RETAINED_WARNING_BYTES: Final = 4 << 30

_RETAINED = """
select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::bigint
from pg_catalog.pg_replication_slots where slot_name = %s and restart_lsn is not null
"""
START_AGAIN: Final = "run `headwater init --again` to take a new snapshot"


def retention(source: Source) -> Iterator[Finding]:
    """Whether a capture that stands still fills the disk, or loses its slot."""
    limit_mb = int(source.settings["max_slot_wal_keep_size"])
    if limit_mb < 0:
        yield Finding(
            "warning",
            "max_slot_wal_keep_size",
            "a slot may hold back WAL without limit: a stopped capture fills the disk in the end",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB' (or what the disk can spare)",
            ("ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'",),
        )
    else:
        said = f"the slot is lost when it holds back more than {limit_mb} MB"
        yield Finding("ok", "max_slot_wal_keep_size", said)
    if int(source.settings.get("idle_replication_slot_timeout", "0")):
        yield Finding(
            "warning",
            "idle_replication_slot_timeout",
            "PostgreSQL drops what a slot needs when capture is down for longer than that",
            "set idle_replication_slot_timeout = 0, or see that capture is never down so long",
        )


def timing(source: Source) -> Iterator[Finding]:
    """Settings that end the stream or delay it."""
    timeout_ms = int(source.settings["wal_sender_timeout"])
    feedback_ms = source.config.capture.feedback_s * 1000
    if timeout_ms and timeout_ms < 2 * feedback_ms:
        yield Finding(
            "error",
            "wal_sender_timeout",
            f"wal_sender_timeout = {timeout_ms} ms ends a stream that reports each "
            f"{feedback_ms:.0f} ms",
            "raise it to 60s, or lower capture.feedback_s",
        )
    elif not timeout_ms:
        yield Finding(
            "warning",
            "wal_sender_timeout",
            "wal_sender_timeout = 0: the slot stays taken when a network dies",
            "ALTER SYSTEM SET wal_sender_timeout = '60s'",
            ("ALTER SYSTEM SET wal_sender_timeout = '60s'",),
        )
    else:
        yield Finding("ok", "wal_sender_timeout", f"{timeout_ms} ms")
    if source.settings["synchronous_commit"] == "off":
        yield Finding(
            "warning",
            "synchronous_commit",
            "synchronous_commit = off: changes reach Kafka about wal_writer_delay (200 ms) later",
            "set it on for the transactions that matter",
        )
    else:
        yield Finding("ok", "synchronous_commit", source.settings["synchronous_commit"])


def slot(source: Source) -> Iterator[Finding]:
    """Whether the slot is there, ours, and has what it needs."""
    name = source.config.source.slot_name
    state = slot_state(source.conn, name)
    if state is None:
        if source.initialised:
            message = f"slot {name} is gone: what changed since is not in Kafka"
            yield Finding("error", "slot", message, START_AGAIN)
        else:
            yield Finding("ok", "slot", f"init creates {name}")
        return
    yield from _ownership(source, state)
    if state.lost:
        reason = state.invalidation_reason or "WAL was removed"
        yield Finding("error", "slot", f"slot {name} is lost ({reason})", START_AGAIN)
        return
    with translated(f"reading slot {name}"):
        row = source.conn.execute(_RETAINED, (name,)).fetchone()
    retained = int(row[0]) if row else 0
    user = f"read by process {state.active_pid}" if state.active else "no capture reads it"
    confirmed = format_lsn(state.confirmed_flush or 0)
    message = f"{name}: confirmed {confirmed}, holds back {retained >> 20} MB of WAL, {user}"
    if state.wal_status == "unreserved" or retained > _RETAINED_WARNING_BYTES:
        hint = (
            "start capture, or find out what it waits for, before the slot is lost or the disk "
            "is full"
        )
        yield Finding("warning", "slot", message, hint)
    else:
        yield Finding("ok", "slot", message)


def _ownership(source: Source, state: SlotState) -> Iterator[Finding]:
    database = source.conn.info.dbname
    if state.plugin != PLUGIN or state.database != database:
        yield Finding(
            "error",
            "slot",
            f"slot {state.name} is another's: plugin {state.plugin}, database {state.database}",
            "set source.slot to another name",
        )
    elif not source.known:
        yield Finding(
            "error",
            "slot",
            f"slot {state.name} exists, and `headwater init` did not create it",
            "set source.slot to another name, or drop it: "
            f"SELECT pg_drop_replication_slot('{state.name}')",
        )
