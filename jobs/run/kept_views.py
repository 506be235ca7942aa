"""The views of a process: those that are kept, and those that are being built."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from cdc.config import View
from cdc.errors import ConfigError, HeadwaterError, RetryableError
from jobs.faults import translate
from jobs.run.batches import Applied
from jobs.run.builder import Declared, Generation, opened
from jobs.run.generation_files import GenerationFiles, is_built_from
from jobs.run.lane import Lane
from jobs.run.mirrored_tables import MirroredTables
from jobs.run.parts import Parts
from jobs.run.reach import Reach
from jobs.run.row_store import open_keeper
from jobs.run.turns import Turns
from jobs.run.view_build import ViewBuild, planned, relation_of
from jobs.run.view_keeper import ViewKeeper
from jobs.state.connection import Connection
from jobs.state.kept_view import KeptView
from jobs.state.view_record import LOADED, ViewRecord, forget_view, view_records
from jobs.turn import turn
from views.maintain.mirror import MirrorTable

_JOIN_S: Final = 0.05

log = structlog.get_logger("apply")


@dataclass(slots=True)
class _View:
    """A view by its name: what readers see of it, what is built of it, why it cannot be kept."""

    declared: View
    live: Generation | None = None
    build: ViewBuild | None = None
    error: HeadwaterError | None = None
    held: ExitStack = field(default_factory=ExitStack)


class KeptViews:
    """A ``jobs.run.view_build.Host``. ``changing`` keeps batches out while views change, ``joined``
    is called when the stream has to have more topics."""

    def __init__(
        self,
        parts: Parts,
        tables: MirroredTables,
        reach: Reach,
        changing: Callable[[], AbstractContextManager[Connection]],
        joined: Callable[[], None],
    ) -> None:
        self._parts, self._tables, self._reach = parts, tables, reach
        self.changing, self._joined = changing, joined
        self._views: dict[str, _View] = {}
        self._generations: dict[int, Generation] = {}
        self._lanes: dict[str, Lane] = {}
        self._turns = Turns(reach, self._name)
        self._lock = threading.RLock()
        self._filling = threading.Lock()
        self._stopping = threading.Event()

    # -- what the engine asks ---------------------------------------------------------------

    def kept(self) -> list[KeptView]:
        """The generations whose dirty keys are collected."""
        with self._lock:
            return [one.kept for one in self._generations.values()]

    def follow(self, conn: Connection) -> None:
        """Take up what is declared and not kept, let go of what is not declared any more."""
        try:
            wanted = self._parts.declared()
        except ConfigError as error:
            log.warning("configuration_not_read", error=str(error))
            return
        for name in [one for one in self._views if one not in wanted]:
            self._let_go(name)
        for name, view in wanted.items():
            if name not in self._views:
                self._take_up(conn, name, view)

    def batch(self, applied: Applied) -> None:
        """A batch was applied: views that it touched have work, all others have reached it."""
        batch = applied.progress.batch
        self._turns.batch(applied)
        with self._lock:
            lanes, generations = list(self._lanes.values()), list(self._generations)
        for lane in lanes:
            lane.wake(applied.views)
        for id_ in generations:
            if id_ not in applied.views and self._is_idle(id_):
                self._reach.reached(id_, batch)

    def wake(self) -> None:
        """The state database was changed otherwise than by the stream: each view looks."""
        with self._lock:
            lanes, generations = list(self._lanes.values()), set(self._generations)
        for lane in lanes:
            lane.wake(generations)

    def caught_up(self, batch: int) -> None:
        """Views without work have reached the last batch."""
        for id_ in list(self._generations):
            if self._is_idle(id_):
                self._reach.reached(id_, batch)

    def settled(self) -> bool:
        """Whether no view is being built."""
        return all(one.build is None or one.build.done for one in self._views.values())

    def have_reached(self, batch: int) -> bool:
        """Whether all live views that can be kept hold a batch."""
        live = [one.live for one in self._views.values() if one.live and not one.error]
        return all(self._reach.of(one.record.id) >= batch for one in live)

    def errors(self) -> dict[str, HeadwaterError]:
        """Why views cannot be kept now."""
        found = {name: one.error for name, one in self._views.items()}
        found |= {n: v.build.error for n, v in self._views.items() if v.build and v.build.error}
        found |= self._turns.errors()
        return {name: error for name, error in found.items() if error is not None}

    def close(self) -> None:
        """Stop building, and keeping after the turns under way."""
        self._stopping.set()
        for one in self._views.values():
            while one.build is not None and not one.build.done:
                one.build.join(_JOIN_S)
        for lane in self._lanes.values():
            lane.end()
        for one in self._views.values():
            one.held.close()

    # -- what builds ask --------------------------------------------------------------------

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        with self._filling:
            missing = set(labels) - self._tables.filled(conn).keys()
            if missing:
                self._tables.described(conn, missing)  # what cannot be is refused before it is read
                for done in self._tables.fill(conn, missing):
                    log.info("mirror_filled", table=done.table.label, rows=done.rows,
                             seconds=round(done.seconds, 3))  # fmt: skip
                with self.changing():
                    pass
                self._joined()
        return self._tables.described(conn, labels)

    def begun(self, generation: Generation) -> None:
        with self._lock:
            self._generations[generation.record.id] = generation
        topics = [self._tables.topic(label) for label in generation.kept.plan.reads]
        self._reach.add(generation.record.id, topics)

    def keep(self, generation: Generation, live: bool) -> Callable[[], int]:
        id_ = generation.record.id
        if live:
            self._show(generation)
        else:
            self._lane(generation.record.store).add(id_, self._keeper(generation))
        return lambda: self._reach.of(id_)

    def _show(self, generation: Generation) -> None:
        """Let readers see it, and keep it in place of the one before."""
        record = generation.record
        lane = self._lane(record.store)
        one = self._views[record.name]
        files = GenerationFiles(self._parts, record.name)
        if one.live is not None:
            self._lane(one.live.record.store).remove(one.live.record.id)
        lane.remove(record.id)
        files.switch(record.generation)
        lane.add(record.id, self._keeper(generation))
        before, one.live, one.error = one.live, generation, None
        self._reach.show(record.id, record.name)
        if before is not None:
            with self._lock:
                self._generations.pop(before.record.id, None)
            self._reach.remove(before.record.id)
        self._expire(files, record.name)

    def abandon(self, generation: Generation) -> None:
        id_ = generation.record.id
        self._lane(generation.record.store).remove(id_)
        with self._lock:
            self._generations.pop(id_, None)
        self._reach.remove(id_)
        with suppress(HeadwaterError), self.changing() as conn:
            forget_view(conn, id_)

    # -- its own ----------------------------------------------------------------------------

    def _take_up(self, conn: Connection, name: str, view: View) -> None:
        one = self._views[name] = _View(view)
        try:
            directory = self._parts.directory(name)
            one.held.enter_context(turn(directory, "stream", self._parts.config.apply.retry_s))
            record = self._live_record(conn, name)
            if record is None:
                one.build = ViewBuild(self._parts, self, name, view, self._stopping)
                one.build.start()
                return
            if not is_built_from(record, view):
                log.warning("view_kept_as_it_was_built", view=name, generation=record.generation)
            self._open(conn, one, record)
        except RetryableError:
            one.held.close()
            del self._views[name]
            raise
        except Exception as error:
            one.error = translate(error, name)
            log.error("view_stopped", view=name, error=str(one.error))

    def _live_record(self, conn: Connection, name: str) -> ViewRecord | None:
        """What the state database has of the generation that readers see; others that it has and
        nobody knows are forgotten."""
        found = GenerationFiles(self._parts, name).read()
        records = view_records(conn, name)
        for record in records:
            known = found.of.get(record.generation)
            if known is None or known.building or record.state != LOADED:
                forget_view(conn, record.id)
        live = found.live
        kept = [one for one in records if live is not None and one.generation == live.number]
        return next((one for one in kept if one.state == LOADED), None)

    def _open(self, conn: Connection, one: _View, record: ViewRecord) -> None:
        declared = Declared(record.name, one.declared, self._parts.config)
        built = one.declared.model_copy(update={"sql": record.sql, "key": record.key})
        plan = planned(self, conn, record.name, built)
        generation = opened(conn, record, declared, plan, relation_of)
        with self.changing():
            self.begun(generation)
        one.live = generation
        self._reach.show(record.id, record.name)
        self._lane(record.store).add(record.id, self._keeper(generation))
        log.info("view_started", view=record.name, generation=record.generation)

    def _let_go(self, name: str) -> None:
        one = self._views.pop(name)
        if one.live is not None:
            self._lane(one.live.record.store).remove(one.live.record.id)
            with self._lock:
                self._generations.pop(one.live.record.id, None)
            self._reach.remove(one.live.record.id)
            with self.changing():
                pass
        one.held.close()
        log.info("view_let_go", view=name)

    def _keeper(self, generation: Generation) -> ViewKeeper:
        view = self._views[generation.record.name].declared
        return open_keeper(self._parts, generation, view)

    def _lane(self, store: str) -> Lane:
        """The lane of a store, begun when it is first asked for."""
        with self._lock:
            if store not in self._lanes:
                connect = partial(self._parts.server.connect, autocommit=True)
                cadence_s = self._parts.config.store(store).cadence_s
                self._lanes[store] = Lane(store, connect, cadence_s, self._turns)
                self._lanes[store].start()
            return self._lanes[store]

    def _is_idle(self, id_: int) -> bool:
        generation = self._generations.get(id_)
        return generation is not None and self._lane(generation.record.store).idle(id_)

    def _name(self, id_: int) -> str:
        generation = self._generations.get(id_)
        return generation.record.name if generation else ""

    def _expire(self, files: GenerationFiles, name: str) -> None:
        for old in files.expired():
            try:
                files.drop(old.number)
            except HeadwaterError as error:
                log.warning("generation_not_dropped", view=name, error=str(error))
                continue
            with self._parts.server.connect(autocommit=True) as conn:
                for record in view_records(conn, name):
                    if record.generation == old.number:
                        forget_view(conn, record.id)
