"""Checks of what a slot needs to live on after a standby was promoted (PostgreSQL 17 and later)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cdc.source.errors import translated
from cdc.source.slot import FAILOVER_SINCE, slot_state
from headwater.check.finding import Finding
from headwater.check.source import Source
from headwater.check.wal import START_AGAIN

_CHECK: Final = "failover"
_AWAITED: Final = """
select pg_catalog.btrim(name, ' "'), coalesce(s.active, false)
from pg_catalog.unnest(pg_catalog.string_to_array(
    pg_catalog.current_setting('synchronized_standby_slots'), ',')) awaited (name)
left join pg_catalog.pg_replication_slots s
       on s.slot_name = pg_catalog.btrim(name, ' "') and s.slot_type = 'physical'
where pg_catalog.btrim(name) <> ''
"""


def failover(source: Source) -> Iterator[Finding]:
    """Whether standbys can take over the slot, and Kafka never gets ahead of them."""
    if not source.config.source.failover:
        return
    version = source.conn.info.server_version
    if version < FAILOVER_SINCE:
        message = f"source.failover: PostgreSQL {version // 10_000} has no failover slots, 17 has"
        yield Finding("error", _CHECK, message, "set source.failover = false")
        return
    state = slot_state(source.conn, source.config.source.slot_name)
    if state is not None and not state.failover:
        message = f"slot {state.name} was created without failover: no standby synchronises it"
        yield Finding("warning", _CHECK, message, START_AGAIN)
    with translated("reading synchronized_standby_slots"):
        awaited = source.conn.execute(_AWAITED).fetchall()
    if not awaited:
        yield Finding(
            "warning",
            _CHECK,
            "synchronized_standby_slots is empty: Kafka may hold changes that the standby lacks "
            "when it is promoted, and capture then refuses to go on",
            "name the standby's physical slot there, and see docs/operations.md for the standby",
        )
    for name, active in awaited:
        if not active:
            message = f"standby slot {name} of synchronized_standby_slots is not in use: capture "
            message += "gets nothing until that standby is connected"
            yield Finding(
                "warning", _CHECK, message, "start the standby, or remove its slot from the setting"
            )
    if awaited and all(active for _, active in awaited):
        yield Finding("ok", _CHECK, f"waits for {', '.join(name for name, _ in awaited)}")
