"""How far views and capture are behind the source.

Three measures, because each answers another question: records say how much work is left, bytes
of WAL where a view stands in the source's history, seconds how old what it shows is.

The seconds count from the commit time of the first record that is not applied, so a view without
such a record is 0 s behind, however long ago the last change was. Clocks of two machines are
compared: a difference between them is in the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from cdc.errors import LogError
from cdc.kafka.broker import Broker, Offsets, Record
from cdc.kafka.marks import newest_mark, refuse_other_database
from cdc.lsn import parse_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.slot import identify, slot_state
from cdc.topics import view_group

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


def measure(
    conn: Connection,
    broker: Broker,
    source: str,
    slot: str,
    views: Mapping[str, Sequence[str]],
    now_s: float,
) -> Lag:
    """The lag of capture and of ``views``, each given with the topics it reads.

    ``now_s`` is Unix time. Raises ``LogError`` when a topic does not exist, or the topics are of
    another database than ``conn``, ``RetryableError``
    when a server cannot be reached.
    """
    wal_lsn = wal_end(conn)
    stored = newest_mark(broker, source)
    if stored is not None:
        refuse_other_database(source, stored.mark, identify(conn))
    progress, confirmed = (stored.mark.lsn, stored.mark.confirmed) if stored else (None, None)
    return Lag(
        wal_lsn,
        progress,
        capture_lag(conn, slot, wal_lsn),
        tuple(
            lag
            for view, topics in views.items()
            for lag in view_lag(broker, view, topics, wal_lsn, confirmed, now_s)
        ),
    )


def wal_end(conn: Connection) -> int:
    """The newest LSN of the server."""
    with translated("reading the server's WAL position"):
        row = conn.execute(_WAL_END).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def capture_lag(conn: Connection, slot: str, wal_lsn: int) -> CaptureLag:
    """The slot's distance from ``wal_lsn``."""
    state = slot_state(conn, slot)
    if state is None:
        return CaptureLag(slot, False, None, None)
    return CaptureLag(
        slot,
        state.active,
        _distance(wal_lsn, state.confirmed_flush),
        _distance(wal_lsn, state.restart_lsn),
    )


def view_lag(
    broker: Broker,
    view: str,
    topics: Sequence[str],
    wal_lsn: int,
    confirmed: int | None,
    now_s: float,
) -> list[PartitionLag]:
    """One entry for every partition of ``topics``. ``confirmed`` is the last mark's."""
    # In this order a view that works meanwhile is never ahead of the ends.
    committed = broker.committed(view_group(view), topics)
    starts, ends = broker.beginning_offsets(topics), broker.end_offsets(topics)
    committed = of_these_topics(committed, ends)
    found = []
    for topic in topics:
        for partition, end in sorted(ends[topic].items()):
            at = committed.get(topic, {}).get(partition)
            oldest = starts[topic][partition]
            start = max(oldest, at or 0)
            waiting = list(first_unapplied(broker, topic, partition, start, end))
            first_ms = commit_ms(waiting) if waiting else now_s * 1000
            reached = commit_lsn(topic, waiting[-1]) if waiting else None
            found.append(
                PartitionLag(
                    view,
                    topic,
                    partition,
                    at,
                    end,
                    end - start if waiting else 0,
                    _distance(wal_lsn, confirmed if reached is None else reached),
                    max(0.0, now_s - first_ms / 1000),
                    max(0, oldest - at) if at is not None else 0,
                )
            )
    return found


def of_these_topics(committed: Offsets, ends: Offsets) -> Offsets:
    """What a group has committed, without offsets above the end of a partition: they count records
    of a topic that was recreated since. Pure."""
    return {
        topic: {p: at for p, at in of_topic.items() if at <= ends.get(topic, {}).get(p, at)}
        for topic, of_topic in committed.items()
    }


def first_unapplied(
    broker: Broker, topic: str, partition: int, start: int, end: int
) -> list[Record]:
    """The first record, and with tombstones in front all up to one that has a value."""
    records = []
    for record in broker.read(topic, partition, start, end):
        records.append(record)
        if record.value is not None:
            break
    return records


def commit_ms(waiting: Sequence[Record]) -> float:
    """When the first of ``waiting`` was committed, in ms since 1970: the one behind it tells for a
    tombstone. When Kafka had it, if none does."""
    try:
        return float(orjson.loads(waiting[-1].value or b"")["source"]["ts_ms"])
    except (ValueError, KeyError, TypeError):
        return waiting[0].timestamp_ms


def commit_lsn(topic: str, record: Record) -> int | None:
    """Of a record's event; None of a tombstone. Raises ``LogError`` for what is no event."""
    if record.value is None:
        return None
    try:
        return int(orjson.loads(record.value)["source"]["commit_lsn"])
    except (ValueError, KeyError, TypeError):
        raise LogError(
            f"{topic}-{record.partition}: the record at offset {record.offset} was not written by "
            "Headwater",
            "give the source a unique source.name, so that no other program writes to its topics",
        ) from None


def _distance(newest: int, reached: int | None) -> int | None:
    return None if reached is None else max(0, newest - reached)
