"""Replication slots as the measurements use them: made before the rows, dropped after."""

from __future__ import annotations

import time
from typing import Final

from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_POLL_S: Final = 0.02
_WAIT_S: Final = 60.0


def create_slot(conn: Connection, slot: str) -> None:
    """A logical slot for pgoutput, where the WAL ends now."""
    with translated(f"creating slot {slot}"):
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


def drop_slot(conn: Connection, slot: str) -> None:
    """Once nobody reads it. A slot that is left would keep the WAL of the next measurements."""
    await_active(conn, slot, active=False)
    with translated(f"dropping slot {slot}"):
        conn.execute("select pg_drop_replication_slot(%s)", (slot,))


def drop_slot_if_any(conn: Connection, slot: str) -> None:
    """The same of a slot that may not be there."""
    if _active(conn, slot) is not None:
        drop_slot(conn, slot)


def await_active(conn: Connection, slot: str, *, active: bool = True) -> None:
    """Until somebody reads the slot, or nobody does. ``FatalError`` after a minute."""
    deadline = time.monotonic() + _WAIT_S
    while (found := _active(conn, slot)) is not active:
        if found is None:
            raise FatalError(f"there is no slot {slot}")
        if time.monotonic() > deadline:
            still = "not read" if active else "still read"
            raise FatalError(f"slot {slot} is {still} after {_WAIT_S:.0f} s")
        time.sleep(_POLL_S)


def _active(conn: Connection, slot: str) -> bool | None:
    """None when there is no such slot."""
    with translated(f"reading slot {slot}"):
        row = conn.execute(
            "select active from pg_replication_slots where slot_name = %s", (slot,)
        ).fetchone()
    return None if row is None else bool(row[0])
