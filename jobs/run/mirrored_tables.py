"""The mirrors of a process: which tables are mirrored, and those that views want besides.

A table is described by its mirror, if it has one, else by the source's catalog. Mirrors are filled
while the stream goes on without them: where their topics end is noted first, then the snapshot is
taken, and in the transaction that makes a mirror the stream gets its topic, from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from cdc.config import Config
from cdc.errors import ViewError
from cdc.kafka.broker import Broker
from cdc.source import postgres as source_postgres
from cdc.source.catalog import captured_tables
from cdc.topics import table_topic
from jobs.state import mirror_table as state_tables
from jobs.state.connection import Connection
from jobs.state.fill import Filled, fill
from jobs.state.mirror_catalog import MirrorCatalog
from jobs.state.mirror_types import MirrorTypes
from jobs.state.mirror_versions import batch_mirror, follow_versions, read_table_versions
from jobs.state.mirrors import MirrorRecord, read_mirrors
from jobs.state.progress import add_partitions, advance, remove_topics
from jobs.state.staging import Mirror
from jobs.state.table_changes import Refill
from jobs.state.type_changes import RefreshedTypes, refresh_types
from views.maintain.mirror import MirrorColumn, MirrorTable

_APPLICATION: Final = "headwater apply"


@dataclass(frozen=True, slots=True)
class MirroredTables:
    """Reads and fills mirrors. ``told`` hears lines of a fill's progress."""

    config: Config
    broker: Broker
    told: Callable[[str, int], None] = lambda _label, _rows: None

    def topic(self, label: str) -> str:
        """The topic of ``schema.table``."""
        schema, _, name = label.partition(".")
        return table_topic(self.config.source.name, schema, name)

    def filled(self, conn: Connection) -> dict[str, MirrorRecord]:
        """The mirrors that batches are applied to, by ``schema.table``."""
        return {label: one for label, one in read_mirrors(conn).items() if one.is_filled}

    def for_batches(self, conn: Connection) -> dict[str, Mirror]:
        """The same as batches know them, with what events of each table version call the columns.

        Raises ``LogError`` for a record of ``__schemas`` that is none.
        """
        versions = read_table_versions(self.broker, self.config.source.name)
        return {label: batch_mirror(one, versions) for label, one in self.filled(conn).items()}

    def follow(
        self, conn: Connection, seen: Mapping[str, set[str]]
    ) -> dict[str, state_tables.MirrorTable | Refill]:
        """Give mirrors the columns of newer versions that a batch has; what became of those that
        were behind. One that cannot follow is stale, and the stream goes on without its topic."""
        source = partial(
            source_postgres.connect, self.config.source.dsn, application_name=_APPLICATION
        )
        versions = read_table_versions(self.broker, self.config.source.name)
        found = follow_versions(conn, source, self.filled(conn), versions, seen)
        if stale := [self.topic(label) for label, one in found.items() if isinstance(one, Refill)]:
            remove_topics(conn, stale)
        return found

    def read_types(self, conn: Connection) -> RefreshedTypes:
        """Bring the source's own types up to date. A mirror whose type is another one now is stale,
        and the stream goes on without its topic."""
        records = self.filled(conn)
        with source_postgres.connect(
            self.config.source.dsn, application_name=_APPLICATION
        ) as session:
            found = refresh_types(conn, session, records.values())
        remove_topics(conn, [self.topic(label) for label in found.stale])
        return found

    def described(self, conn: Connection, labels: Iterable[str]) -> dict[str, MirrorTable]:
        """Tables as views are planned over them. Those that nobody captures are left out."""
        held, wanted = self.filled(conn), set(labels)
        found = {label: planned(held[label].table) for label in wanted & held.keys()}
        if missing := wanted - held.keys():
            found |= self._of_source(conn, missing)
        return found

    def fill(self, conn: Connection, labels: Iterable[str]) -> list[Filled]:
        """Fill the mirrors of these tables, and give the stream their topics."""
        wanted = set(labels)
        oids = self._oids(wanted)
        if missing := wanted - oids.keys():
            raise ViewError(
                f"{', '.join(sorted(missing))}: not captured",
                "add it to source.tables, then `headwater table add`",
            )
        topics = {label: self.topic(label) for label in wanted}
        there = self.broker.partitions(list(topics.values()))
        if absent := sorted(set(topics.values()) - there.keys()):
            raise ViewError(
                f"topic {', '.join(absent)} does not exist",
                "run `headwater init`, or `headwater table add` for a table that is new",
            )
        ids = self.broker.topic_ids(list(topics.values()))  # before the offsets, which are theirs
        ends = self.broker.end_offsets(list(topics.values()))

        def joined(state: Connection, done: Filled) -> None:
            topic = topics[done.table.label]
            add_partitions(state, {topic: ends[topic]}, ids)
            advance(state, done.lsn)

        return fill(
            conn,
            self.config.source,
            list(oids.values()),
            slot_timeout_s=self.config.snapshot.slot_timeout_s,
            on_rows=self.told,
            filled=joined,
        )

    def _of_source(self, conn: Connection, labels: set[str]) -> dict[str, MirrorTable]:
        source = self.config.source
        oids = self._oids(labels)
        with source_postgres.connect(source.dsn, application_name=_APPLICATION) as session:
            types = MirrorTypes(session, conn)
            catalog = MirrorCatalog(types, conn, source.publication_name, source.keys)
            return {label: planned(catalog.table(session, oid)) for label, oid in oids.items()}

    def _oids(self, labels: set[str]) -> dict[str, int]:
        source = self.config.source
        with source_postgres.connect(source.dsn, application_name=_APPLICATION) as session:
            tables = {f"{t.schema}.{t.name}": t.oid for t in captured_tables(session, source)}
        return {label: tables[label] for label in labels & tables.keys()}


def planned(table: state_tables.MirrorTable) -> MirrorTable:
    """A mirror as the planner of views knows it."""
    columns = tuple(
        MirrorColumn(
            one.name,
            one.sql,
            one.nullable,
            one.one_text and not one.fault and not one.is_text,
            one.fault or ("the state database does not have its type" if one.is_text else ""),
        )
        for one in table.columns
    )
    return MirrorTable(table.schema, table.name, columns, table.key)
