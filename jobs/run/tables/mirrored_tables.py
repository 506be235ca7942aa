"""The mirrors of a process: which tables are mirrored, and those that views want besides.

A table is described by its mirror, if it has one, else by the source's catalog. Mirrors are filled
while the stream goes on without them: where their topics end is noted first, then the snapshot is
taken, and in the transaction that makes a mirror the stream gets its topic, from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from cdc.config import Config
from cdc.debezium.table_shapes import read_shapes
from cdc.errors import ViewError
from cdc.events.form import Form
from cdc.events.readers.columns import loss
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Broker
from cdc.kafka.event_reader import form_of
from cdc.log_events import LogEvent
from cdc.source import postgres as source_postgres
from cdc.source.types import load_types
from jobs.run.builds.step_log import RowsLog
from jobs.run.tables.source_session import SourceSession
from jobs.run.tables.source_settings import SourceSettings
from jobs.run.tables.source_tables import gone, table_oids
from jobs.state.batch.staging import Mirror
from jobs.state.batch.stream_offsets import add_partitions, advance, remove_topics
from jobs.state.mirrors import table as state_tables
from jobs.state.mirrors.catalog import MirrorCatalog
from jobs.state.mirrors.catalog_versions import (
    CatalogVersion,
    SourceCatalog,
    follow_ahead,
    read_ahead,
)
from jobs.state.mirrors.fill import Filled, fill
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale, read_mirrors
from jobs.state.mirrors.mirror_versions import (
    batch_mirror,
    follow_versions,
    with_undescribed,
)
from jobs.state.mirrors.schemas_topic import SentVersion, read_table_versions
from jobs.state.mirrors.table import column_kind
from jobs.state.mirrors.table_changes import Refill
from jobs.state.mirrors.type_changes import RefreshedTypes, refresh_types
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import Connection
from jobs.state.views.missed_changes import leave_readers
from views.maintain.mirror import MirrorColumn, MirrorTable, text_fault
from views.table_versions import treatment_fault

_APPLICATION: Final = "headwater apply"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MirroredTables:
    """Reads and fills mirrors. ``settings`` are of the source, ``told`` hears how many rows of a
    table are read."""

    config: Config
    broker: Broker
    settings: SourceSettings
    told: Callable[[str, int], None] = lambda _label, _rows: None

    def topic(self, label: str) -> str:
        """The topic of ``schema.table``."""
        schema, _, name = label.partition(".")
        return self.config.source.own_topic(schema, name)

    def filled(self, conn: Connection) -> dict[str, MirrorRecord]:
        """The mirrors that batches are applied to, by ``schema.table``."""
        return {label: one for label, one in read_mirrors(conn).items() if one.is_filled}

    def for_batches(self, conn: Connection) -> dict[str, Mirror]:
        """The same as batches know them, with what events of each table version call the columns.

        Raises ``LogError`` for a record of ``__schemas`` that is none.
        """
        versions = read_table_versions(self.broker, self.config.source.name)
        return {label: batch_mirror(one, versions) for label, one in self.filled(conn).items()}

    def tell(self, reader: EventReader | None, conn: Connection) -> None:
        """What the mirrors were filled from, by topic: an LSN, and the snapshot there."""
        if reader is not None:
            filled = {self.topic(label): one for label, one in self.filled(conn).items()}
            told = {topic: (one.fill_lsn, one.fill_snapshot) for topic, one in filled.items()}
            reader.know({topic: one for topic, one in told.items() if one[1]})

    def follow(
        self, conn: Connection, seen: Mapping[str, set[str]]
    ) -> dict[str, state_tables.MirrorTable | Refill]:
        """Give mirrors the columns of newer versions that a batch has; what became of those that
        were behind. One that cannot follow is stale, and the stream goes on without its topic."""
        versions = read_table_versions(self.broker, self.config.source.name)
        records = self.filled(conn)
        if self.config.source.of_debezium:
            versions = with_undescribed(versions, records, seen)
        found = follow_versions(conn, self._source, records, versions, seen)
        self._forget_stale(conn, found)
        return found

    def read_types(self, conn: Connection) -> RefreshedTypes:
        """Bring the source's own types up to date. A mirror that cannot follow is stale, and the
        stream goes on without its topic."""
        records = self.filled(conn)
        with self._source() as session:
            found = refresh_types(conn, session, records.values())
        remove_topics(conn, [self.topic(label) for label in found.stale])
        return found

    def ahead(self, conn: Connection, labels: Iterable[str]) -> list[CatalogVersion]:
        """What mirrors of these tables have to follow to be as the source's catalog has them.

        Raises ``ViewError`` for a table that was mirrored and is not captured any more, and
        ``RetryableError`` while the source is away.
        """
        held = self.filled(conn)
        records = [held[label] for label in sorted({*labels} & held.keys())]
        if not records:
            return []
        oids = self._oids({one.table.label for one in records})
        if missing := {one.table.label for one in records} - oids.keys():
            self._refuse_gone(conn, missing)

        def described(label: str) -> Mapping[str, SentVersion]:
            return read_table_versions(self.broker, self.config.source.name).get(label, {})

        with self._source() as session:
            catalog = SourceCatalog(session, self.settings.now(), load_types(session))
            found = [
                read_ahead(catalog, one, oids[one.table.label], partial(described, one.table.label))
                for one in records
            ]
        return [one for one in found if one is not None]

    def follow_ahead(
        self, conn: Connection, ahead: Iterable[CatalogVersion]
    ) -> dict[str, state_tables.MirrorTable | Refill]:
        """Give mirrors what ``ahead`` has found; what became of them. Those that a batch has
        changed meanwhile are left out."""
        held = self.filled(conn)
        found: dict[str, state_tables.MirrorTable | Refill] = {}
        with self._source() as session:
            types = MirrorTypes(session, conn)
            for one in ahead:
                label = one.record.table.label
                if label in held and held[label].table == one.record.table:
                    found[label] = follow_ahead(conn, session, types, one)
        self._forget_stale(conn, found)
        return found

    def source_session(self) -> SourceSession:
        """One to ask again and again."""
        return SourceSession(self._source)

    def leave(self, conn: Connection, found: Mapping[str, Refill]) -> None:
        """These mirrors are stale, and the stream goes on without their topics."""
        for label, record in self.filled(conn).items():
            if label in found:
                mark_stale(conn, record.id, found[label].reason)
        self._forget_stale(conn, found)

    def described(self, conn: Connection, labels: Iterable[str]) -> dict[str, MirrorTable]:
        """Tables as views are planned over them. Those that nobody captures are left out."""
        held, wanted = self.filled(conn), set(labels)
        found = {label: self._planned(held[label].table) for label in wanted & held.keys()}
        if missing := wanted - held.keys():
            found |= self._of_source(conn, missing)
        return found

    def fill(self, conn: Connection, labels: Iterable[str]) -> list[Filled]:
        """Fill the mirrors of these tables, and give the stream their topics."""
        wanted = set(labels)
        oids = self._oids(wanted)
        if missing := wanted - oids.keys():
            self._refuse_gone(conn, missing)
            raise ViewError(
                f"{', '.join(sorted(missing))}: not captured",
                "add it to source.tables, then run `headwater table add`",
            )
        topics = {label: self.topic(label) for label in wanted}
        there = self.broker.partitions(list(topics.values()))
        if absent := sorted(set(topics.values()) - there.keys()):
            raise ViewError(
                f"topic {', '.join(absent)} does not exist",
                "run `headwater init`, or `headwater table add` for a new table",
            )
        ids = self.broker.topic_ids(list(topics.values()))  # before the offsets, which are theirs
        ends = self.broker.end_offsets(list(topics.values()))

        told = RowsLog(LogEvent.MIRROR_FILLING)

        def read(label: str, rows: int) -> None:
            told.tell(rows, table=label)
            self.told(label, rows)

        def joined(state: Connection, done: Filled) -> None:
            topic = topics[done.table.label]
            add_partitions(state, {topic: ends[topic]}, ids)
            advance(state, done.lsn)
            leave_readers(state, done.table.label)

        return fill(
            conn,
            self.settings.now(),
            list(oids.values()),
            slot_timeout_s=self.config.snapshot.slot_timeout_s,
            on_rows=read,
            filled=joined,
        )

    def _of_source(self, conn: Connection, labels: set[str]) -> dict[str, MirrorTable]:
        oids = self._oids(labels)
        with self._source() as session:
            catalog = self._catalog(session, conn)
            tables = {label: catalog.table(session, oid) for label, oid in oids.items()}
        return {label: self._planned(table) for label, table in tables.items()}

    def _planned(self, table: state_tables.MirrorTable) -> MirrorTable:
        if not self.config.source.of_debezium:
            return planned(table, form_of(self.config))
        shapes = read_shapes(self.broker, self.config.source.name).get(self.topic(table.label), [])
        return planned(table, None, shapes[-1].lost if shapes else {})

    def _oids(self, labels: set[str]) -> dict[str, int]:
        with self._source() as session:
            return table_oids(session, self.settings.now(), labels)

    def _refuse_gone(self, conn: Connection, labels: Iterable[str]) -> None:
        """Raise ``ViewError`` for one that was mirrored: what became of it is told."""
        held = read_mirrors(conn)
        with self._source() as session:
            for label in sorted({*labels} & held.keys()):
                raise gone(session, held[label])

    def _source(self) -> source_postgres.Connection:
        return source_postgres.connect(self.config.source.dsn, application_name=_APPLICATION)

    def _catalog(self, session: source_postgres.Connection, conn: Connection) -> MirrorCatalog:
        return MirrorCatalog(MirrorTypes(session, conn), conn, self.settings.now())

    def _forget_stale(
        self, conn: Connection, found: Mapping[str, state_tables.MirrorTable | Refill]
    ) -> None:
        if stale := [self.topic(label) for label, one in found.items() if isinstance(one, Refill)]:
            remove_topics(conn, stale)


def planned(
    table: state_tables.MirrorTable, form: Form | None = None, lost: Mapping[str, str] = _NONE
) -> MirrorTable:
    """A mirror as the planner of views knows it; ``form`` is that of its table's events, ``lost``
    are columns that these do not have exactly in any case."""
    columns = tuple(
        MirrorColumn(
            one.name,
            one.sql,
            one.nullable,
            one.one_text and not one.fault and not one.is_text and not one.treatment,
            (treatment_fault(one.treatment) if one.treatment else one.fault)
            or (text_fault((one.type.element or one.type).base) if one.is_text else ""),
            lost.get(one.name, "" if form is None else loss(form, column_kind(one))),
        )
        for one in table.columns
    )
    return MirrorTable(table.schema, table.name, columns, table.key)
