"""How far views and capture are behind the source: what one look at the servers finds.

Three measures, because each answers another question: records say how much work is left, bytes
of WAL where a view stands in the source's history, seconds how old what it shows is.

The seconds count from the commit time of the first record that is not applied, so a view without
such a record is 0 s behind, however long ago the last change was. Clocks of two machines are
compared: a difference between them is in the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from cdc.errors import LogError
from cdc.events.mark_records import StoredMark
from cdc.events.payload import payload
from cdc.events.readers.debezium import connector_lsn
from cdc.kafka.broker import Offsets, Record
from cdc.lag.slot_activity import SlotActivity
from cdc.lsn import parse_lsn
from cdc.registry.schemas import Read
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_WAL_END = (
    "select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() "
    "else pg_catalog.pg_current_wal_lsn() end::text"
)


@dataclass(frozen=True, slots=True)
class CaptureLag:
    """The slot against the server's newest WAL; None where there is no slot."""

    slot: str
    active: bool
    behind_bytes: int | None
    """WAL that is not confirmed."""
    retained_bytes: int | None
    """WAL the server keeps because of the slot."""
    activity: SlotActivity | None = None
    """All that the server says of the slot; None where it was not asked."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of one view."""

    view: str
    topic: str
    partition: int
    committed: int | None
    """The next offset to apply; None when the view never committed one."""
    end: int
    behind_records: int
    behind_bytes: int | None
    """None while capture has never reported progress."""
    behind_s: float
    lost_records: int
    """Records that retention removed before the view applied them."""
    in_kafka_s: float = 0.0
    """For how long Kafka has held the oldest record that is not applied; 0 without one."""
    moved_s: float | None = None
    """When the view's offsets were committed last, since 1970; None if it did not say."""

    @property
    def started(self) -> bool:
        return self.committed is not None


@dataclass(frozen=True, slots=True)
class Lag:
    """Everything, as of one moment."""

    wal_lsn: int
    progress_lsn: int | None
    capture: CaptureLag
    views: tuple[PartitionLag, ...]
    at_s: float = 0.0
    """The moment, since 1970."""
    heartbeat_s: float | None = None
    """When the newest heartbeat that is durable in Kafka was written, since 1970."""
    marked_s: float | None = None
    """When the newest progress mark was written, since 1970."""
    marked_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """What that mark says: what was committed before the heartbeat is below them."""
    moved_s: float | None = None
    """When Kafka was last seen to have acknowledged records of the stream, of a transaction that is
    not complete, too; only capture knows."""


def lag_of(
    activity: SlotActivity | None, slot: str, stored: StoredMark | None, now_s: float
) -> Lag:
    """Without views, of what the source and the progress topic said. Without ``activity``, of a
    source that does not answer, WAL ends where the newest mark does: views are at least so late."""
    mark = stored.mark if stored else None
    wal_lsn = activity.wal_end if activity else mark.confirmed if mark else 0
    return Lag(
        wal_lsn,
        mark.lsn if mark else None,
        capture_lag(slot, activity),
        (),
        now_s,
        None if mark is None or mark.heartbeat_ms is None else mark.heartbeat_ms / 1000,
        stored.timestamp_ms / 1000 if stored else None,
        mark.offsets if mark else {},
    )


def wal_end(conn: Connection) -> int:
    """The newest LSN of the server."""
    with translated("reading the server's WAL position"):
        row = conn.execute(_WAL_END).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def capture_lag(slot: str, activity: SlotActivity | None) -> CaptureLag:
    """The slot's distance from the end of WAL."""
    if activity is None:
        return CaptureLag(slot, False, None, None)
    return CaptureLag(
        slot,
        activity.pid is not None,
        activity.unconfirmed_bytes,
        activity.retained_bytes,
        activity,
    )


def of_these_topics(committed: Offsets, ends: Offsets) -> Offsets:
    """What a group has committed, without offsets above the end of a partition: they count records
    of a topic that was recreated since. Pure."""
    return {
        topic: {p: at for p, at in of_topic.items() if at <= ends.get(topic, {}).get(p, at)}
        for topic, of_topic in committed.items()
    }


def commit_ms(waiting: Sequence[Record], read: Read = orjson.loads) -> float:
    """When the first of ``waiting`` was committed, in ms since 1970: the one behind it tells for a
    tombstone. When Kafka had it, if none does."""
    try:
        return float(payload(read(waiting[-1].value or b""))["source"]["ts_ms"])
    except (ValueError, KeyError, TypeError):
        return waiting[0].timestamp_ms


def commit_lsn(topic: str, record: Record, read: Read = orjson.loads) -> int | None:
    """Of a record's event; None of a tombstone. ``read`` tells what a value says. Raises
    ``LogError`` for what is no event."""
    if record.value is None:
        return None
    try:
        source = payload(read(record.value))["source"]
        lsn = source.get("commit_lsn")
        return connector_lsn(source) if lsn is None else int(lsn)
    except (ValueError, KeyError, TypeError):
        raise LogError(
            f"{topic}-{record.partition}: the record at offset {record.offset} was not written by "
            "Headwater",
            "give the source a unique source.name, so that no other program writes to its topics",
        ) from None
