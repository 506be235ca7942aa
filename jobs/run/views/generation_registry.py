"""The generations that a process keeps: batches collect their dirty keys, lanes write their rows.

Batches know a generation from ``begun`` or ``reopened`` to ``leave``. What they touched in between
was collected; a generation that they have passed over is made up for before it is kept again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

import structlog

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError
from cdc.log_events import LogEvent
from jobs.run.builds.builder import Declared, Generation, make_up, opened
from jobs.run.process_parts import Parts
from jobs.run.stream.applied_batch import Applied
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.views.group_offsets import GroupOffsets
from jobs.run.views.known_generations import KnownGenerations
from jobs.run.views.lanes import Lanes
from jobs.run.views.turn_reports import Turns
from jobs.run.views.view_plan import AsTheyAre, planned_again, relation_of, shows_more
from jobs.state.groups.tables import fill_groups
from jobs.state.histories.queue import History
from jobs.state.mirrors import table as state_tables
from jobs.state.mirrors.mirror_record import MirrorRecord
from jobs.state.mirrors.table import has_only_more
from jobs.state.mirrors.table_changes import Refill
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.view_record import (
    PAUSED,
    ViewRecord,
    forget_view,
    note_loaded,
    tables_of,
    view_records,
)
from views.maintain.mirror import MirrorTable

log = structlog.get_logger("apply")


class GenerationRegistry:
    """Use from any thread. ``changing`` keeps batches out while generations change, ``joined`` is
    called when the stream has to have more topics."""

    def __init__(
        self,
        parts: Parts,
        tables: MirroredTables,
        reach: GroupOffsets,
        changing: Callable[[], AbstractContextManager[Connection]],
        joined: Callable[[], None],
    ) -> None:
        self._parts, self._tables, self.reach = parts, tables, reach
        self.as_they_are = AsTheyAre(tables)
        self.changing, self._joined = changing, joined
        self.known = KnownGenerations()
        self._fills: dict[str, int] = {}
        self._turns = Turns(reach, self.known.name)
        self.lanes = Lanes(parts, self._turns)
        self._filling = threading.Lock()

    # -- what batches and the engine ask ----------------------------------------------------

    def views(self) -> list[ViewGeneration]:
        """Those whose dirty keys are collected."""
        return [one.kept for one in self.known]

    def histories(self) -> list[History]:
        """Those whose changes are queued; they are among ``views``."""
        return [one.history for one in self.known if one.history is not None]

    def batch(self, applied: Applied) -> None:
        """A batch was applied: those that it touched have work, all others have reached it."""
        self._turns.batch(applied)
        self.lanes.wake(applied.views)
        for one in self.known:
            if one.record.id not in applied.views and self.lanes.is_idle(one):
                self.reach.reached(one.record.id, applied.progress.batch)

    def wake(self) -> None:
        """The state database was changed otherwise than by the stream: each one looks."""
        self.lanes.wake(one.record.id for one in self.known)

    def caught_up(self, batch: int) -> None:
        """Those without work have reached the last batch; what was written is told."""
        self._turns.tell()
        for one in self.known:
            if self.lanes.is_idle(one):
                self.reach.reached(one.record.id, batch)

    def reached(self, generation: Generation) -> int:
        """The last batch that its store holds whole, -1 where that is not known yet."""
        return self.reach.of(generation.record.id)

    def error(self, generation: Generation) -> HeadwaterError | None:
        """Why it cannot be written now."""
        return self._turns.error(generation.record.id)

    def errors(self) -> dict[str, HeadwaterError]:
        """Why views cannot be written now."""
        return self._turns.errors()

    def interrupted(self) -> list[str]:
        """The same for people; asked on any thread."""
        return [f"view {view}: {error}" for view, error in self.errors().items()]

    # -- how they come and go ---------------------------------------------------------------

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        """These tables, mirrored from now on; fills what is missing."""
        with self._filling:
            missing = set(labels) - self._tables.filled(conn).keys()
            if missing:
                self._tables.described(conn, missing)  # what cannot be is refused before it is read
                for done in self._tables.fill(conn, missing):
                    log.info(LogEvent.MIRROR_FILLED, table=done.table.label, rows=done.rows,
                             seconds=round(done.seconds, 3))  # fmt: skip
                with self.changing():
                    pass
                self._joined()
        return self._tables.described(conn, labels)

    def follow_source(self, conn: Connection, labels: tuple[str, ...]) -> None:
        """Give mirrors of these tables the columns that they have in the source at present, which
        events may not have told yet. A source that is away is not waited for.

        Raises ``ViewError`` for a table that the source has no more."""
        try:
            ahead = self._tables.ahead(conn, labels)
        except RetryableError as error:
            log.warning(LogEvent.SOURCE_NOT_ASKED, tables=labels, error=str(error))
            return
        if not ahead:
            return
        with self.changing() as state:
            before = self._tables.filled(state)
            self.altered(state, before, self._tables.follow_ahead(state, ahead))

    def altered(
        self,
        conn: Connection,
        before: Mapping[str, MirrorRecord],
        found: Mapping[str, state_tables.MirrorTable | Refill],
    ) -> None:
        """Mirrors have other columns, or are stale: the views of their tables are opened again.
        Within ``changing``."""
        more, stale = set(), set()
        for label, one in found.items():
            if isinstance(one, Refill):
                log.warning(LogEvent.TABLE_ALTERED, table=label, mirror="stale", reason=one.reason)
                stale.add(label)
                continue
            log.info(LogEvent.TABLE_ALTERED, table=label, mirror="followed")
            if has_only_more(before[label].table, one):
                more.add(label)
        self.pass_over(stale)
        passed = self.pass_over(found.keys() - more - stale)
        passed += self.with_more(conn, more)
        self.follow(conn, passed)

    def pass_over_stale(self, fills: Mapping[str, int]) -> None:
        """Batches know no generation over a mirror that is not filled, or that was filled anew
        beside it: what happened meanwhile was not collected. ``fills`` are the LSNs of the filled
        mirrors, by ``schema.table``. At the end of ``changing``."""
        moved = {label for label, lsn in self._fills.items() if fills.get(label) != lsn}
        read = {label for one in self.known for label in one.kept.plan.reads}
        self.pass_over(moved | (read - fills.keys()))
        self._fills = dict(fills)

    def begun(self, generation: Generation) -> None:
        """Its dirty keys are collected from now on; within ``changing``."""
        self.known.know(generation)
        topics = [self._tables.topic(label) for label in generation.kept.plan.reads]
        self.reach.add(generation.record.id, topics)

    def reopened(self, conn: Connection, record: ViewRecord, declared: View) -> Generation:
        """A generation whose store holds what it was filled with, as it was built; its dirty keys
        are collected from now on. Its record says whether it was passed over: a mirror that is
        filled herein goes on behind what the generation has."""
        built = declared.model_copy(
            update={
                "sql": record.sql,
                "key": record.key,
                "store": record.store,
                "history": record.history,
            }
        )
        self.mirrored(conn, tuple(tables_of(record.name, record.sql)))
        wanted = Declared(record.name, built, self._parts.config)
        with self.changing() as state:  # so that no batch alters what it is planned over
            plan, names = planned_again(self.as_they_are, state, record)
            generation = opened(state, record, wanted, plan, relation_of, names)
            noted = [one for one in view_records(state, record.name) if one.id == record.id]
            generation = replace(generation, record=noted[0] if noted else record)
            self.begun(generation)
        with self.known.unaltered(generation):
            fill_groups(conn, generation.kept, again=generation.record.state == PAUSED)
        return generation

    def made_up(self, conn: Connection, generation: Generation) -> int:
        """Make up for what batches have passed over; the batch that it is to be written under.
        Raises ``RetryableError`` where they pass over it again meanwhile."""
        with self.known.unaltered(generation):
            batch = make_up(conn, generation)
        with self.changing() as state:
            self.known.refuse_altered(generation)
            note_loaded(state, generation.record.id)
        return batch

    def shown(self, generation: Generation) -> None:
        """Readers see it from now on: it tells how far its view is."""
        self.reach.show(generation.record.id, generation.record.name)

    def leave(self, generation: Generation) -> None:
        """Keep it no more, when a turn under way is over. Its tables stay."""
        self.lanes.remove(generation)
        self.known.forget(generation)
        self.reach.remove(generation.record.id)
        self._turns.forget(generation.record.id)
        with self.changing():
            pass

    def pass_over(self, labels: Collection[str]) -> list[Generation]:
        """Batches know the views of these tables no more, which are not what they were planned
        over: who keeps them opens them again, and makes up for what was missed. Within
        ``changing``."""
        return [self.known.forget(one) for one in self.known.reading(labels)]

    def follow(self, conn: Connection, passed: Iterable[Generation]) -> None:
        """Histories of these tables, whose mirrors have other columns now, are opened again at
        once, so that no batch passes over them. Within ``changing``."""
        for one in passed:
            if one.history is None:
                continue
            try:
                again = self._opened_again(conn, one)
            except HeadwaterError as error:  # whoever keeps it finds the same, and tells
                log.warning(LogEvent.HISTORY_NOT_FOLLOWED, view=one.record.name, error=str(error))
                continue
            self.known.know(again)

    def _opened_again(self, conn: Connection, one: Generation) -> Generation:
        record = one.record
        declared = Declared(record.name, one.view, self._parts.config)
        plan, names = planned_again(self.as_they_are, conn, record)
        return opened(conn, record, declared, plan, relation_of, names)

    def with_more(self, conn: Connection, labels: Collection[str]) -> list[Generation]:
        """These tables have more columns, which are NULL in all rows. Views that do not read them
        are what they were, one that shows them is opened again at once; all others, and histories,
        are passed over. Within ``changing``."""
        passed = []
        for one in self.known.reading(labels):
            found = None if one.history is not None else self._with_more(conn, one)
            if found is one:
                continue
            if found is not None:
                self.known.know(found)
            else:
                passed.append(self.known.forget(one))
            if one.history is None:
                self.lanes.remove(one)  # else it would write rows without the columns
        return passed

    def _with_more(self, conn: Connection, one: Generation) -> Generation | None:
        """A generation over tables that have more columns; None if its rows may be others, or its
        groups: their table would be made anew, which only who opens a passed one fills. The table
        of a generation that stays what it is must not be opened again, which may empty it."""
        try:
            plan, _ = planned_again(self.as_they_are, conn, one.record)
            if plan.reads == one.kept.plan.reads:
                return one
            if plan.groups is not None or not shows_more(one.record.sql, one.kept.plan, plan):
                return None
            return self._opened_again(conn, one)
        except HeadwaterError:
            return None

    def abandon(self, generation: Generation) -> None:
        """It is not built after all: forget it."""
        with suppress(HeadwaterError):  # the next start forgets it
            self.leave(generation)
            with self.changing() as conn:
                forget_view(conn, generation.record.id)
