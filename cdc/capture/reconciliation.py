"""Before capture streams: do the slot, the source and Kafka still belong together?

Kafka's newest progress mark is what capture once knew for certain. A slot ahead of it, a slot that
is gone, lost or another's, a source with another history and a topic that lost records each mean a
gap that streaming would hide, so each is an error that names the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import orjson
import structlog

from cdc.capture.routed_tables import Routed, check_routes, topic_before
from cdc.config import Config
from cdc.errors import HeadwaterError, LogError, SourceError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.kafka.marks import newest_mark, refuse_other_database, refuse_other_form, uninitialised
from cdc.kafka.partition_ends import Read, read_tails
from cdc.log_events import LogEvent
from cdc.lsn import format_lsn, parse_lsn
from cdc.source.bounded_query import asking
from cdc.source.catalog import chosen_tables
from cdc.source.columns.excluded_columns import column_lists, exposed
from cdc.source.errors import translated
from cdc.source.keys import key_faults
from cdc.source.postgres import Connection
from cdc.source.publication import read_publication, unpublished
from cdc.source.selection import Table
from cdc.source.slot import PLUGIN, SlotState, SourceIdentity, identify, slot_state
from cdc.source.timelines import branched_at, read_history

REBUILD = (
    "run `headwater init --again` for a new snapshot, and let the views apply it: "
    "changes in between are not in the stream"
)

log = structlog.get_logger("capture")


class Start(NamedTuple):
    """From where capture goes on. ``mark`` is the newest one, ``turn`` that of the next one
    (``cdc.events.mark_records``); ``ends`` are Kafka's end offsets, ``topic_ids`` its ids."""

    mark: Mark
    identity: SourceIdentity
    ends: dict[str, dict[int, int]]
    turn: int = 0
    topic_ids: Mapping[str, str] = MappingProxyType({})
    routed: Routed = Routed()


def begin(config: Config, broker: Broker, read: Read = orjson.loads) -> Start:
    """``reconcile`` before anything is opened; also says which chosen tables are not captured, and
    which entries of ``source.keys`` are of none that is."""
    with asking(config.source.dsn) as conn:
        start = reconcile(config, conn, broker, read)
        for table in check_publication(config, conn, start.mark):
            way_out = f"run `headwater table add {table.label}`"
            log.warning(LogEvent.TABLE_NOT_CAPTURED, table=table.label, way_out=way_out)
        _check_keys(config, conn)
        return start


def reconcile(config: Config, conn: Connection, broker: Broker, read: Read = orjson.loads) -> Start:
    """Compare and answer where to start; raises ``SourceError`` or ``LogError``."""
    stored = newest_mark(broker, config.source.name)
    if stored is None:
        raise uninitialised(config.source.name)
    mark = stored.mark
    refuse_other_form(config, mark.form)
    identity = check_source(config, conn, mark, lambda: newest_event(broker, mark, read))
    ends = broker.end_offsets(sorted(broker.partitions(sorted(mark.offsets))))
    check_topics(mark, ends)
    ids = broker.topic_ids(sorted(ends))
    check_topic_ids(mark, ids)
    routed = check_routes(config.source, conn, mark, ends)
    return Start(mark, identity, ends, stored.next_turn, ids, routed)


def newest_event(broker: Broker, mark: Mark, read: Read = orjson.loads) -> int:
    """The commit LSN of the newest event that Kafka holds above what the mark covers, 0 if there is
    none. Topics that were deleted since are passed over."""
    ends = broker.end_offsets(sorted(broker.partitions(sorted(mark.offsets))))
    floors = {
        topic: {p: min(end, mark.searched_from[topic].get(p, 0)) for p, end in of_topic.items()}
        for topic, of_topic in ends.items()
    }
    tails = read_tails(broker, sorted(floors), floors, read)
    return max((tail.position.commit_lsn for tail in tails.values() if tail.position), default=0)


def check_source(
    config: Config, conn: Connection, mark: Mark, newest: Callable[[], int], covered: int = 0
) -> SourceIdentity:
    """The source's part of ``reconcile``: is it, with its slot, still the one of ``mark``?

    Asked again for every session: a slot may be dropped and made anew, or a standby promoted,
    while capture is not connected. ``newest`` gives the commit LSN of the newest event that Kafka
    holds, if it is needed; ``covered`` is the end LSN up to which this process has come, which the
    next marks will say. Raises ``SourceError``, or ``LogError`` for another database.
    """
    identity = identify(conn)
    refuse_other_database(config.source.name, mark, identity)
    slot = slot_state(conn, config.source.slot_name)
    fault = (
        _timeline_fault(config, mark, identity, newest, covered)
        or _slot_fault(config, mark, slot, identity)
        or _source_fault(mark, _wal_end(conn))
    )
    if fault is not None:
        raise fault
    return identity


def check_publication(config: Config, conn: Connection, mark: Mark) -> list[Table]:
    """Does the publication still let through what was captured? The tables that are chosen and
    neither published nor ever were. Raises ``SourceError``: what it left out is not in the stream.
    """
    source = config.source
    publication = read_publication(conn, source.publication_name)
    if publication is None:
        raise SourceError(f"there is no publication {source.publication_name}", REBUILD)
    if not (publication.publishes_all and publication.via_root):
        raise SourceError(
            f"publication {source.publication_name} has to publish all operations, and to have "
            "publish_via_partition_root = true",
            REBUILD,
        )
    tables, _ = chosen_tables(conn, source)
    absent = unpublished(publication, tables)
    _check_columns(config, conn, tables, {(one.schema, one.name) for one in absent})
    for table in absent:
        if topic_before(source.name, mark, table) in mark.offsets:
            raise SourceError(
                f"table {table.label} is not in publication {source.publication_name} any more",
                f"{REBUILD}; or remove it from source.tables",
            )
    return absent


def _check_columns(
    config: Config, conn: Connection, tables: Sequence[Table], absent: Collection[tuple[str, str]]
) -> None:
    """Raise ``SourceError`` where a column is published that must not leave the source."""
    source, found = config.source, dict[str, Sequence[str]]()
    for (schema, table), of in column_lists(conn, source, tables).items():
        if of.exposed and (schema, table) not in absent:
            found[f"{schema}.{table}"] = of.exposed
        for column in of.unlisted:
            name = f"{schema}.{table}.{column}"
            log.warning(LogEvent.COLUMN_NOT_CAPTURED, column=name, way_out="run `headwater check`")
    if found:
        raise exposed(source.publication_name, found)


def _check_keys(config: Config, conn: Connection) -> None:
    if config.source.keys:
        tables, _ = chosen_tables(conn, config.source)
        for fault in key_faults(conn, config.source, tables):
            log.warning(LogEvent.SOURCE_KEY_UNUSED, reason=fault.message, way_out=fault.hint)


def _timeline_fault(
    config: Config,
    mark: Mark,
    identity: SourceIdentity,
    newest: Callable[[], int],
    covered: int,
) -> HeadwaterError | None:
    """A promoted standby goes on where Kafka stands if it had all that Kafka holds."""
    if mark.timeline == identity.timeline:
        return None
    branch = branched_at(read_history(config.source.dsn, identity.timeline), mark.timeline)
    fault = branch_fault(mark, identity.timeline, branch, newest, covered)
    if fault is None and branch is not None:
        at = format_lsn(branch)
        now, was = identity.timeline, mark.timeline
        log.warning(LogEvent.SOURCE_PROMOTED, timeline=now, was=was, branched_at=at)
    return fault


def branch_fault(
    mark: Mark, timeline: int, branch: int | None, newest: Callable[[], int], covered: int
) -> HeadwaterError | None:
    """Why ``timeline``, which left that of ``mark`` at ``branch``, cannot be followed. Pure."""
    moved = f"the source is on timeline {timeline}, Kafka was filled from timeline {mark.timeline}"
    if branch is None:
        return SourceError(
            f"{moved}, which is not an ancestor of it, so their LSNs cannot be compared", REBUILD
        )
    at = format_lsn(branch)
    held = newest()
    if held >= branch:
        return SourceError(
            f"{moved}, which it left at {at}: Kafka holds changes up to {format_lsn(held)} that "
            "the promoted server never had",
            REBUILD,
        )
    if mark.confirmed > branch:
        return SourceError(
            f"{moved}, which it left at {at}, before {format_lsn(mark.confirmed)} that Kafka "
            "already covers: changes that the new timeline made in between would be skipped",
            REBUILD,
        )
    if covered > branch:
        return SourceError(
            f"{moved}, which it left at {at}, before {format_lsn(covered)} which this process "
            "had read on the old timeline and not confirmed",
            "start capture again: it continues from what Kafka holds",
        )
    return None


def _slot_fault(
    config: Config, mark: Mark, slot: SlotState | None, identity: SourceIdentity
) -> HeadwaterError | None:
    name = config.source.slot_name
    at = format_lsn(mark.confirmed)
    if slot is None:
        return SourceError(f"slot {name} is gone; Kafka holds the changes up to {at}", REBUILD)
    if slot.plugin != PLUGIN or slot.database != identity.database:
        return SourceError(
            f"slot {name} belongs to {slot.plugin or 'physical replication'} in database "
            f"{slot.database}, not to this source",
            "set source.slot to another name",
        )
    if slot.lost:
        return SourceError(
            f"slot {name} is lost ({slot.invalidation_reason or 'its WAL was removed'}); Kafka "
            f"holds the changes up to {at}",
            REBUILD,
        )
    if slot.confirmed_flush is None or slot.confirmed_flush > mark.confirmed:
        ahead = "nowhere" if slot.confirmed_flush is None else format_lsn(slot.confirmed_flush)
        return SourceError(
            f"slot {name} stands at {ahead}, ahead of Kafka at {at}: it was recreated or "
            "advanced, and the changes in between are lost",
            REBUILD,
        )
    return None


def _source_fault(mark: Mark, wal_end: int) -> HeadwaterError | None:
    if wal_end < mark.confirmed:
        return SourceError(
            f"the source's WAL ends at {format_lsn(wal_end)}, before {format_lsn(mark.confirmed)} "
            "that Kafka already holds: it was restored from an older backup",
            REBUILD,
        )
    return None


def check_topics(mark: Mark, ends: Mapping[str, Mapping[int, int]]) -> None:
    for topic, offsets in mark.offsets.items():
        if len(ends.get(topic, {})) > len(offsets):
            raise LogError(
                f"topic {topic} has {len(ends[topic])} partitions but had {len(offsets)} when "
                "capture last wrote to it: keys would move to other partitions and lose their "
                "order",
                "run `headwater topics add-partitions`, which takes them over if all changes of "
                "before are applied; if it refuses, `headwater init --again`",
            )
        if topic not in ends and not any(offsets.values()):
            raise LogError(
                f"topic {topic} was deleted; it held no record",
                "run `headwater init`, which creates it",
            )
        for partition, offset in offsets.items():
            end = ends.get(topic, {}).get(partition)
            if end is None or end < offset:
                held = "is gone" if end is None else f"ends at {end}"
                raise LogError(
                    f"{topic}[{partition}] {held}, yet records up to {offset} were written: the "
                    "topic was deleted or a broker lost acknowledged data",
                    REBUILD,
                )


def check_topic_ids(mark: Mark, ids: Mapping[str, str]) -> None:
    """Raise ``LogError`` for a topic that held records and is another one by now. Pure."""
    for topic, id_ in ids.items():
        held = any(mark.offsets.get(topic, {}).values())
        if held and mark.topic_ids.get(topic, id_) != id_:
            raise LogError(
                f"topic {topic} was recreated, or belongs to another Kafka cluster: the records "
                "that capture wrote are gone, and its position is unknown",
                f"{REBUILD}; then run `headwater view rebuild` for the views that report it",
            )


def _wal_end(conn: Connection) -> int:
    with translated("reading the WAL position"):
        row = conn.execute("select pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])
