"""Before a batch: mirrors are given the columns of the table versions that its events are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from cdc.errors import RetryableError
from cdc.events.readers.debezium import BEGUN_ANEW, OTHER_COLUMNS
from cdc.source.postgres import Connection
from jobs.state.batch.staging import Mirror
from jobs.state.mirrors.ddl import follow
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale
from jobs.state.mirrors.schemas_topic import SentVersion, Versions
from jobs.state.mirrors.table import MirrorTable
from jobs.state.mirrors.table_changes import (
    Refill,
    has_key,
    older,
    renamed_key,
    shapes,
    to_follow,
)
from jobs.state.mirrors.types import MirrorTypes


def batch_mirror(record: MirrorRecord, versions: Versions) -> Mirror:
    """A mirror as batches know it."""
    of_table = versions.get(record.table.label, {})
    readable = shapes(record.table, of_table.values())
    before = frozenset(older(record.table, of_table) & readable.keys())
    return Mirror(record.id, record.table, record.fill_lsn, record.truncated, readable, before)


def seen_versions(
    records: pa.Table, tables: Mapping[str, str], mirrors: Mapping[str, Mirror]
) -> dict[str, set[str]]:
    """The versions of a folded batch's events that mirrors have to read, by ``schema.table``.
    ``tables`` has the ``schema.table`` of each topic."""
    grouped = records.group_by(["topic", "schema_id"]).aggregate([("commit_lsn", "max")])
    columns = [grouped.column(name).to_pylist() for name in grouped.column_names]
    by_name = dict(zip(grouped.column_names, columns, strict=True))
    found: dict[str, set[str]] = {}
    for topic, schema_id, lsn in zip(
        by_name["topic"], by_name["schema_id"], by_name["commit_lsn_max"], strict=True
    ):
        label = tables.get(topic)
        mirror = None if label is None else mirrors.get(label)
        if mirror is not None and schema_id is not None and lsn >= mirror.fill_lsn:
            found.setdefault(mirror.table.label, set()).add(schema_id)
    return found


def unread(mirrors: Mapping[str, Mirror], seen: Mapping[str, set[str]]) -> bool:
    """Whether there are events of versions that mirrors may have to follow: the versions are to be
    read again, and followed, before the batch is applied."""
    return any(not mirrors[label].follows(id_) for label, ids in seen.items() for id_ in ids)


def follow_versions(
    state: Connection,
    source: Callable[[], Connection],
    records: Mapping[str, MirrorRecord],
    versions: Versions,
    seen: Mapping[str, set[str]],
) -> dict[str, MirrorTable | Refill]:
    """Give mirrors the columns of newer versions that a batch has, each in a transaction of its
    own; what became of those that were behind, by ``schema.table``.

    ``state`` is in autocommit mode; ``source`` opens a session, which is closed. Also to be called
    without a batch (``seen`` empty sets) when versions were described otherwise. Raises
    ``RetryableError`` when a server is away.
    """
    ahead = {
        label: version
        for label, ids in seen.items()
        if label in records
        and (version := to_follow(records[label].table, versions.get(label, {}), ids)) is not None
    }
    found: dict[str, MirrorTable | Refill] = {}
    if ahead:
        with source() as session:
            types = MirrorTypes(session, state)
            for label, version in ahead.items():
                with state.transaction():
                    found[label] = follow(state, session, types, records[label], version)
    for label in seen.keys() & records.keys():
        if not isinstance(now := found.get(label, records[label].table), Refill):
            _refuse_unread(now, versions.get(label, {}), seen[label])
            if refill := _uncertain(now, versions.get(label, {}), seen[label]):
                mark_stale(state, records[label].id, refill.reason)
                found[label] = refill
    return found


def with_undescribed(
    versions: Versions, records: Mapping[str, MirrorRecord], seen: Mapping[str, set[str]]
) -> Versions:
    """With those that a connector's events are of and nobody describes: what their columns are is
    not certain (``cdc.events.readers.debezium``)."""
    found = dict(versions)
    for label in seen.keys() & records.keys():
        key, known = records[label].table.key, found.get(label, {})
        other = [id_ for id_ in seen[label] if id_.startswith((BEGUN_ANEW, OTHER_COLUMNS))]
        found[label] = {**known, **{id_: SentVersion(id_, 0, (), key, 0) for id_ in other}}
    return found


def _refuse_unread(table: MirrorTable, versions: Mapping[str, SentVersion], seen: set[str]) -> None:
    known = versions.keys() | dict(table.versions).keys()
    if seen - known:
        raise RetryableError(
            f"{table.label}: an event arrived before the description of its table version",
            "wait: capture wrote it first, so it is about to arrive",
        )


def _uncertain(
    table: MirrorTable, versions: Mapping[str, SentVersion], seen: set[str]
) -> Refill | None:
    """Events of a version whose columns are not known to be the mirror's, or whose key has other
    names, are in the rows of a fill that is taken now."""
    described = (versions[schema_id] for schema_id in sorted(seen) if schema_id in versions)
    if other := next((one for one in described if not has_key(table, one)), None):
        return renamed_key(table, other)
    if seen <= shapes(table, versions.values()).keys():
        return None
    return Refill("it was altered, and which columns its events have is not certain")
