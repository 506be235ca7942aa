"""What the pages of a part of the pipeline show: as ``headwater.pipeline.picture``, and as of the
same look. What has to be asked for besides, as topics and snapshots, is asked for once for all
clients, and says in ``at_s`` when that was. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.lag.states import State
from headwater.pipeline.picture import Advice, FiringAlarm, ViewLine


@dataclass(frozen=True, slots=True)
class SlotPage:
    """What the source says of the slot. ``received_lsn`` is what its WAL sender has sent,
    ``durable_lsn`` below what Kafka holds everything, by the newest progress mark."""

    slot: str
    exists: bool
    active: bool
    received_lsn: str | None
    durable_lsn: str | None
    confirmed_lsn: str | None
    restart_lsn: str | None
    wal_status: str | None
    unconfirmed_bytes: int | None
    retained_bytes: int | None
    safe_bytes: int | None
    """What may be written before ``max_slot_wal_keep_size`` takes the slot's WAL away."""
    loss_s: float | None
    """Until the slot is lost, at the rate of the last minutes."""
    disk_free_bytes: int | None
    disk_full_s: float | None
    spilled_bytes: int | None
    spilled_transactions: int | None
    walsender_wait: str
    catalog_xmin_age: int | None
    oldest_transaction_s: float | None
    inactive_since_s: float | None
    clock_ahead_s: float | None
    sees_others: bool = True
    """Whether Headwater's role may see what other sessions do; without that ``received_lsn`` and
    ``oldest_transaction_s`` are None."""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding of ``headwater check``: ``level`` is ok, warning or error."""

    level: str
    check: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class SourcePage:
    """``slot`` is None while the source does not tell. ``checks`` are as of ``checked_at_s``, which
    is None before the first."""

    source: str
    state: State
    measured_at_s: float | None
    wal_lsn: str | None
    lag_s: float | None
    records_s: float | None
    wal_bytes_s: float | None
    blocked_by: str
    slot: SlotPage | None
    checks: tuple[Check, ...]
    checked_at_s: float | None
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class PartitionPage:
    """Offsets of a partition: it holds ``[begin, end)``."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicPage:
    """``retention_s`` is None where records are kept for good, ``views`` read it."""

    topic: str
    table: str
    """``schema.table``, of several tables apart by commas; "" of a topic that is of none, as that
    of dead letters."""
    partitions: tuple[PartitionPage, ...]
    records: int
    retention_s: float | None
    retention_bytes: int | None
    cleanup: str
    views: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicsPage:
    at_s: float
    topics: tuple[TopicPage, ...]


@dataclass(frozen=True, slots=True)
class ViewPartition:
    """One partition of a view; ``committed`` is the next offset that it applies."""

    topic: str
    partition: int
    state: State
    committed: int | None
    end: int
    lag_records: int
    lag_bytes: int | None
    lag_s: float
    in_kafka_s: float
    lost_records: int


@dataclass(frozen=True, slots=True)
class GenerationLine:
    number: int
    phase: str
    rows: int
    parked_keys: int
    lsn: str | None
    begun_at: str | None
    """Moments of generations are ISO 8601, in UTC."""
    live_at: str | None
    retired_at: str | None


@dataclass(frozen=True, slots=True)
class ViewPage:
    """A view. ``source_to_kafka_s`` and ``kafka_to_view_s`` are the two hops of its lag."""

    line: ViewLine
    measured_at_s: float | None
    sql: str
    key: tuple[str, ...]
    tables: tuple[str, ...]
    declared_otherwise: str
    """What of the declaration is not what the live generation was built with; "" if all is."""
    applied: bool | None
    source_to_kafka_s: float | None
    kafka_to_view_s: float | None
    partitions: tuple[ViewPartition, ...]
    generations: tuple[GenerationLine, ...]
    """The newest first."""
    live: int | None
    building: int | None
    checked_at_s: float | None
    checked_keys: int | None
    differing_keys: int | None
    not_checked: str
    problems: tuple[str, ...]
    """What could not be learnt, and why."""


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    table: str
    rows: int
    share: float
    """From 0 to 1."""
    finished: bool
    rows_s: float | None
    left_s: float | None
    dead_letters: int


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """``status`` is running, paused, failed, interrupted, cancelled or complete."""

    id: int
    kind: str
    status: str
    lsn: str | None
    rows: int
    share: float
    rows_s: float | None
    left_s: float | None
    begun_at_s: float
    ended_at_s: float | None
    error: str
    tables: tuple[SnapshotTable, ...]


@dataclass(frozen=True, slots=True)
class SnapshotsPage:
    """The newest first."""

    at_s: float
    snapshots: tuple[SnapshotLine, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterLine:
    """What waits for one key: ``events`` of it, the first with ``id``. ``view`` is "" where capture
    or a snapshot could not publish a record. ``id``, ``key``, ``name`` and ``cause``, which may
    tell or quote a value, are shown to those alone who may see rows of all of ``tables``, and are
    None to others."""

    view: str
    tables: tuple[str, ...]
    """``schema.table``, of which the row is made."""
    id: str | None
    key: str | None
    name: str | None
    """What ``retry`` and ``discard`` take for this key alone."""
    cause: str | None
    events: int
    since_at_s: float | None


@dataclass(frozen=True, slots=True)
class DeadLettersPage:
    """At most ``limit`` lines; ``keys`` is how many there are."""

    at_s: float
    keys: int
    limit: int
    letters: tuple[DeadLetterLine, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlarmsPage:
    """The worst first, the oldest first among equals. What only capture counts, as its own dead
    letters, is not judged here."""

    judged_at_s: float | None
    firing: tuple[FiringAlarm, ...]
