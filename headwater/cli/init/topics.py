"""What ``headwater init`` finds of a source in Kafka, from earlier runs too, and its mark there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any

from cdc.capture.reconciliation import newest_event
from cdc.capture.routed_tables import (
    filled,
    places_of,
    refuse_other_sources,
    with_those_that_left,
)
from cdc.config import Config
from cdc.errors import LogError, SourceError
from cdc.events.mark_records import StoredMark, mark_records, withdrawing_keys
from cdc.events.marks import Mark
from cdc.events.records import Record
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.kafka.marks import (
    newest_mark,
    refuse_other_database,
    refuse_other_form,
    stored_mark,
)
from cdc.kafka.topology import all_specs, topic_specs
from cdc.lsn import format_lsn, parse_lsn
from cdc.registry.schemas import registry_of, values_of
from cdc.routes.faults import changed_keys, changed_places
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.selection import Table
from cdc.source.slot import SourceIdentity, identify
from cdc.topics import progress_topic, schemas_topic
from snapshots.job import Observer
from snapshots.state import SnapshotState


@dataclass(frozen=True, slots=True)
class Kit:
    """What the steps of ``headwater init`` share."""

    config: Config
    conn: Connection
    broker: Broker
    observer: Observer
    tables: list[Table]

    @property
    def progress(self) -> str:
        return progress_topic(self.config.source.name)


def refuse_other_history(kit: Kit, *, is_known: bool, moved: bool = False) -> None:
    """Positions of this source must be higher than any that the topics already hold. ``is_known``:
    this database has begun to fill them; ``moved``: it did so in another cluster. Raises
    ``LogError``."""
    stored = stored_mark(kit.broker, kit.config.source.name)
    if stored is None:
        if not is_known:
            _refuse_records(kit)
        return
    mark = stored.mark
    held = max(mark.lsn, newest_event(kit.broker, mark, values_of(registry_of(kit.config))))
    with translated("reading the WAL position"):
        row = kit.conn.execute("select pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    here = identify(kit.conn)
    is_other = (mark.system_id, mark.database) != (here.system_id, here.database)
    if (is_other and not moved) or parse_lsn(row[0]) <= held:
        raise LogError(
            f"the topics of source {kit.config.source.name} were filled from another database or "
            f"history (cluster {mark.system_id}, database {mark.database}, up to "
            f"{format_lsn(held)})",
            "give this source a unique source.name, or delete those topics and rebuild the "
            "views that report it; if the server was promoted or restored, wait until its WAL "
            "is past that LSN; if this is the same database after pg_upgrade, "
            "run `headwater init --again --moved`",
        )


def refuse_other_begun_form(kit: Kit, known: SnapshotState | None) -> None:
    """What is published next to records must have their form; ``known`` is the snapshot that
    may have begun them. Raises ``LogError``."""
    stored = stored_mark(kit.broker, kit.config.source.name)
    begun = stored.mark.form if stored else known.form if known else None
    if begun is not None and _filled(kit):
        refuse_other_form(kit.config, begun)


def refuse_other_routes(kit: Kit, known: SnapshotState | None, *, again: bool) -> None:
    """What is published next to records of a table must have its keys and partitions, and be of
    this source. ``again``: a new snapshot is taken, which may be in another topic. ``known`` is
    the snapshot that may have begun them: there is no mark before it is done. Raises
    ``LogError``."""
    source, before = kit.config.source, _routed_before(kit, known)
    if not (source.routes or before):
        return
    tables = [(table.schema, table.name) for table in kit.tables]
    held = filled(kit.broker, source, tables, before)
    differing = changed_keys if again else changed_places
    if found := differing(source.name, source.routing, tables, before, held):
        raise LogError(*found)
    refuse_other_sources(kit.config, kit.broker, tables, held)


def routed(kit: Kit, known: SnapshotState | None) -> dict[str, Mapping[str, Any]]:
    """Where tables are that a route puts elsewhere than their names say, as in a mark: those of the
    source, and those that left it before."""
    labels = [table.label for table in kit.tables]
    now = places_of(kit.config.source, [(table.schema, table.name) for table in kit.tables])
    return with_those_that_left(_routed_before(kit, known), labels, now)


def _routed_before(kit: Kit, known: SnapshotState | None) -> Mapping[str, Mapping[str, Any]]:
    if stored := stored_mark(kit.broker, kit.config.source.name):
        return stored.mark.routed
    return known.routed if known else {}


def _refuse_records(kit: Kit) -> None:
    """Another database's init may be underway: there is no mark before it is done."""
    if filled := _filled(kit):
        raise LogError(
            f"Kafka holds records in {', '.join(filled)}, and no progress mark says of which "
            "database they are",
            "check source.name and kafka.bootstrap_servers; if no `headwater init` of another "
            "database is underway, delete those topics with Kafka's tools, then run this again",
        )


def _filled(kit: Kit) -> list[str]:
    """Table topics that are there, and hold records."""
    there = kit.broker.partitions(table_topics(kit))
    held = kit.broker.end_offsets(sorted(there)) if there else {}
    return [topic for topic, of_topic in held.items() if any(of_topic.values())]


def table_topics(kit: Kit) -> list[str]:
    """The topics of the tables' changes."""
    source = kit.config.source
    return source.topics((table.schema, table.name) for table in kit.tables)


def dirty(kit: Kit) -> frozenset[str]:
    """Table topics that hold records."""
    held = kit.broker.end_offsets(table_topics(kit))
    return frozenset(topic for topic, of_topic in held.items() if any(of_topic.values()))


def ends(kit: Kit) -> dict[str, dict[int, int]]:
    """Next offsets of the topics that carry changes."""
    own = {kit.progress, schemas_topic(kit.config.source.name)}
    specs = topic_specs(kit.config, kit.tables)
    return kit.broker.end_offsets([spec.name for spec in specs if spec.name not in own])


def restore_topics(
    config: Config, broker: Broker, tables: list[Table], reader: int | None, here: SourceIdentity
) -> list[str]:
    """Make those topics of an initialised source that are gone and never held a record.

    Raises ``LogError`` when others are gone, or the progress mark is, or the topics are of another
    database than ``here``, or of another form; ``SourceError`` while the
    server process ``reader`` serves the slot to a capture: its marks have Kafka's ids of the
    topics that it found, and with those the next start would refuse what is made here.
    """
    source, specs = config.source.name, all_specs(config, tables)
    existing = broker.partitions([spec.name for spec in specs])
    marked = progress_topic(source) in existing
    stored = newest_mark(broker, source) if marked else None
    if stored is not None:
        refuse_other_database(source, stored.mark, here)
        refuse_other_form(config, stored.mark.form)
    missing = [spec for spec in specs if spec.name not in existing]
    lost = [spec.name for spec in missing if _held(spec.name, source, stored)]
    if stored is None and not lost:
        lost = [f"{progress_topic(source)} (it holds no progress)"]
    if lost:
        noun = "topics are" if len(lost) > 1 else "topic is"
        raise LogError(
            f"{noun} gone with all records: {', '.join(lost)}",
            "run `headwater init --again`, which creates them and takes a new snapshot; then "
            "run `headwater view rebuild` for the views that read them",
        )
    known = [spec.name for spec in missing if stored and spec.name in stored.mark.offsets]
    if known and reader is not None:
        raise SourceError(
            f"topics that held no record are gone while capture runs (server process {reader}): "
            f"{', '.join(known)}",
            "stop `headwater capture`, then run `headwater init` again",
        )
    return broker.create_topics(missing)


def _held(topic: str, source: str, stored: StoredMark | None) -> bool:
    """Whether a topic held records, as far as the newest mark tells."""
    if stored is None or topic == schemas_topic(source):
        return True
    return any(stored.mark.offsets.get(topic, {}).values())


def withdraw(kit: Kit, producer: BulkProducer) -> None:
    """No mark of an earlier run may let capture start before this one is done."""
    source = kit.config.source.name
    stored = newest_mark(kit.broker, source)
    if stored is not None:
        keys = withdrawing_keys(source, stored)
        none: list[Record] = [{"key": key, "value": None} for key in keys]
        producer.send_records(kit.progress, none)
        producer.flush()


def send_progress(kit: Kit, producer: BulkProducer, mark: Mark) -> None:
    """Write the mark that lets capture start."""
    now_ms, limit = time_ns() // 1_000_000, producer.largest_record
    records = mark_records(mark, kit.config.source.name, now_ms, limit)
    producer.send_records(kit.progress, records)
    producer.flush()
