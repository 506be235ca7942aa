"""What DDL made of mirrored tables: with a batch, and looked for between batches.

Mirrors follow, or are stale until they are filled anew; the views over them are opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import structlog

from cdc.errors import HeadwaterError
from cdc.kafka.broker import Offsets
from cdc.log_events import LogEvent
from cdc.topics import schemas_topic
from jobs.run.stream.applied_batch import Applied
from jobs.run.stream.batches import Batches
from jobs.run.stream.stream import StreamBatch
from jobs.run.stream.unread_types import StaleTypesError, UnknownLabelsError
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.tables.source_session import SourceSession
from jobs.run.tables.source_tables import moved
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.state.mirrors.enum_labels import noted_enums
from jobs.state.mirrors.table_changes import Refill, held_versions
from jobs.state.mirrors.type_changes import any_renamed
from jobs.state.server.connection import Connection

log = structlog.get_logger("apply")


@dataclass(slots=True)
class AlteredTables:
    """``changing`` keeps batches out meanwhile; ``opened`` is called when views are to be opened
    again."""

    tables: MirroredTables
    generations: GenerationRegistry
    changing: Callable[[], AbstractContextManager[Connection]]
    opened: Callable[[], None]
    _described: Offsets = field(default_factory=dict, init=False)
    _session: SourceSession = field(init=False)

    def __post_init__(self) -> None:
        self._session = self.tables.source_session()

    def close(self) -> None:
        """Let go of the source."""
        self._session.close()

    def apply(self, batches: Batches, batch: StreamBatch) -> Applied | None:
        """Apply a batch with its records at hand, when mirrors are what its events are of; None if
        that was done before."""

        def applied(types_read: bool) -> Applied | None:
            changes = batch.changes(batches.every_change_of)
            return batches.apply(batch.begin, batch.end, batch.rows, types_read, changes)

        if seen := batches.unread(batch.rows):
            self.follow(seen)
        try:
            return applied(types_read=False)
        except StaleTypesError:
            self.read_types()
        try:
            return applied(types_read=True)
        except UnknownLabelsError as error:
            self.refill(error.tables, str(error))
        return applied(types_read=True)

    def follow(self, seen: Mapping[str, set[str]]) -> None:
        """The versions that a batch has, by ``schema.table``."""
        with self.changing() as conn:
            before = self.tables.filled(conn)
            if found := self.tables.follow(conn, seen):
                self.generations.altered(conn, before, found)
                self.opened()

    def read_types(self) -> None:
        """The source's own types again. Mirrors that cannot follow have to be filled anew; views
        over renamed labels are opened again, and make up for the rows that have them."""
        with self.changing() as conn:
            found = self.tables.read_types(conn)
            self.generations.pass_over(found.stale.keys() | found.relabelled)
        log.warning(
            LogEvent.TYPES_READ,
            changed=found.changed,
            relabelled=sorted(found.relabelled),
            stale={label: one.reason for label, one in sorted(found.stale.items())},
        )
        self.opened()

    def refill(self, labels: Collection[str], reason: str = "asked for") -> None:
        """Fill the mirrors of these tables again, and make up what views over them miss."""
        with self.changing() as conn:
            self.tables.leave(conn, dict.fromkeys(labels, Refill(reason)))
            self.generations.pass_over(labels)
        log.warning(LogEvent.MIRRORS_LEFT, tables=sorted(labels), reason=reason)
        self.opened()

    def look_at_versions(self, conn: Connection) -> None:
        """A column that took another's place, and a table that took another's, may have the same
        version, of which no event tells; and a column that is renamed back brings a version that
        its mirror has had. Mirrors follow when tables were described again."""
        topic = schemas_topic(self.tables.config.source.name)
        ends = self.tables.broker.end_offsets([topic])
        if ends == self._described:
            return
        if self._described:
            held = self.tables.filled(conn)
            self.follow({label: held_versions(one.table) for label, one in held.items()})
        self._described = ends

    def look_at_names(self, conn: Connection) -> bool:
        """A table that was renamed, or dropped, sends no event under the name that views read, and
        none tells of a renamed label of an enum. Whether the source could be asked: whoever needs
        it tells why not."""
        records = self.tables.filled(conn).values()
        try:
            found = self._session.ask(partial(moved, records=records)) if records else {}
            enums = noted_enums(conn)  # also those that no mirror has now: the next one may
            renamed = self._session.ask(partial(any_renamed, enums)) if enums else False
        except HeadwaterError as error:
            log.debug(LogEvent.SOURCE_NOT_ASKED, error=str(error))
            return False
        if renamed:
            self.read_types()
        if found:
            with self.changing() as state:
                before = self.tables.filled(state)
                self.tables.leave(state, found)
                self.generations.altered(state, before, found)
                self.opened()
        return True
