"""Is capture alive? Judged from outside, by what it has achieved: Kafka's newest mark and the slot.

That a process runs says nothing: it may wait for a dead connection. A heartbeat that was written
to the source and is durable in Kafka says that everything between works.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.capture.reconciliation import REBUILD
from cdc.config import Config
from cdc.errors import one_line
from cdc.kafka.broker import Broker
from cdc.kafka.marks import newest_mark, refuse_other_database
from cdc.lag.measure import wal_end
from cdc.source.postgres import Connection
from cdc.source.slot import SlotState, identify, slot_state


@dataclass(frozen=True, slots=True)
class Health:
    """What was seen. Ages in seconds, sizes in bytes; None where there is nothing to measure."""

    slot: str
    active_pid: int | None
    wal_status: str | None
    heartbeat_age_s: float | None
    """Since the newest durable heartbeat was written, by the clock of capture's machine."""
    progress_age_s: float | None
    """Since the newest progress mark was written."""
    unconfirmed_bytes: int | None
    retained_bytes: int | None
    """From the slot's ``restart_lsn``: what the source keeps on its disk."""
    problems: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not self.problems


def measure(
    config: Config, conn: Connection, broker: Broker, max_age_s: float, now_s: float
) -> Health:
    """Look once. ``now_s`` is Unix time. Raises ``HeadwaterError`` when a server is out of reach,
    ``LogError`` when the progress topic is not there, or is of another database than ``conn``."""
    stored = newest_mark(broker, config.source.name)
    mark = stored.mark if stored else None
    beat_age_s = progress_age_s = None
    if stored is not None and mark is not None:
        refuse_other_database(config.source.name, mark, identify(conn))
        progress_age_s = max(0.0, now_s - stored.timestamp_ms / 1000)
        if mark.heartbeat_ms is not None:
            beat_age_s = max(0.0, now_s - mark.heartbeat_ms / 1000)
    name = config.source.slot_name
    slot = slot_state(conn, name)
    end = wal_end(conn)
    beats = config.capture.heartbeat_s > 0
    stale = _stale(beats, beat_age_s, progress_age_s, max_age_s) if mark else None
    problems = [
        one_line("the source is not initialised", "run `headwater init`") if mark is None else "",
        *(_slot_problems(name, slot) if mark else ()),
        stale or "",
    ]
    return Health(
        name,
        slot.active_pid if slot else None,
        slot.wal_status if slot else None,
        beat_age_s,
        progress_age_s,
        _distance(end, slot.confirmed_flush if slot else None),
        _distance(end, slot.restart_lsn if slot else None),
        tuple(problem for problem in problems if problem),
    )


def _slot_problems(name: str, slot: SlotState | None) -> list[str]:
    if slot is None:
        return [one_line(f"slot {name} is gone", REBUILD)]
    if slot.lost:
        reason = slot.invalidation_reason or "WAL removed"
        return [one_line(f"slot {name} is lost ({reason})", REBUILD)]
    problems = []
    if not slot.active:
        problems.append(f"slot {name} is not read: no capture is connected")
    if slot.wal_status == "unreserved":
        problems.append(f"slot {name} is about to be lost: wal_status is unreserved")
    return problems


def _stale(
    beats: bool, beat_age_s: float | None, progress_age_s: float | None, max_age_s: float
) -> str | None:
    """A capture that catches up meets old heartbeats, but its progress is new: that is alive."""
    if progress_age_s is not None and progress_age_s <= max_age_s:
        return None
    if not beats:
        return None  # an idle source makes no progress, and nothing else tells
    if beat_age_s is None:
        return "no heartbeat has come through yet"
    if beat_age_s > max_age_s:
        return f"the newest heartbeat in Kafka is {beat_age_s:.0f} s old, more than {max_age_s:g}"
    return None


def _distance(end: int, lsn: int | None) -> int | None:
    return None if lsn is None else max(0, end - lsn)
