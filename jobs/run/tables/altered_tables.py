"""What DDL made of mirrored tables: with a batch, and looked for between batches.

Mirrors follow, or are stale until they are filled anew; the views over them are opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import structlog

from cdc.errors import HeadwaterError
from cdc.kafka.broker import Offsets
from cdc.topics import schemas_topic
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.tables.source_session import SourceSession
from jobs.run.tables.source_tables import moved
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.state.mirrors.table_changes import Refill, held_versions
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

    def follow(self, seen: Mapping[str, set[str]]) -> None:
        """The versions that a batch has, by ``schema.table``."""
        with self.changing() as conn:
            before = self.tables.filled(conn)
            if found := self.tables.follow(conn, seen):
                self.generations.altered(conn, before, found)
                self.opened()

    def read_types(self) -> None:
        """The source's own types again: mirrors with values of others have to be filled anew."""
        with self.changing() as conn:
            found = self.tables.read_types(conn)
            self.generations.pass_over(found.stale)
        log.warning("types_read", changed=found.changed, stale=sorted(found.stale))
        self.opened()

    def refill(self, labels: Sequence[str]) -> None:
        """Fill the mirrors of these tables again, and make up what views over them miss."""
        with self.changing() as conn:
            self.tables.leave(conn, dict.fromkeys(labels, Refill("asked for")))
            self.generations.pass_over(labels)
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
        """A table that was renamed, or dropped, sends no event under the name that views read.
        Whether the source could be asked: whoever needs it tells why not."""
        records = self.tables.filled(conn).values()
        try:
            found = self._session.ask(partial(moved, records=records)) if records else {}
        except HeadwaterError as error:
            log.debug("source_not_asked", error=str(error))
            return False
        if found:
            with self.changing() as state:
                before = self.tables.filled(state)
                self.tables.leave(state, found)
                self.generations.altered(state, before, found)
                self.opened()
        return True
