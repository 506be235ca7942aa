"""A view that is being built: from its declaration to the moment that readers see it.

Its tables are mirrored, its dirty keys are collected from then on, its place in the store is loaded
from the mirrors, its keeper brings it up to date, and then the store shows it. Ended before the
load is whole it is begun again, and what it had filled beside what readers see is dropped; ended
after that, the next build of the same declaration goes on with it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from pyspark.sql.types import StructType

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError
from cdc.log_events import LogEvent
from cdc.plural import plural
from jobs.generations.declaration import layout_of
from jobs.run.builds.builder import Declared, Generation, begin, load, opened
from jobs.run.builds.generation_files import GenerationFiles, is_built_from
from jobs.run.builds.parallel_load import divided
from jobs.run.builds.step_log import Steps
from jobs.run.process_parts import Parts
from jobs.run.removal import forget_unknown
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.view_plan import planned, relation_of
from jobs.sinks.rows import Rows
from jobs.sinks.schema_evolution import check_names
from jobs.spark.faults import trace, translate
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_columns import spark_columns
from jobs.state.views.view_record import PAUSED, view_records
from jobs.state.views.whole_recomputation import is_always_whole, too_large

_POLL_S: Final = 0.02
_AGAIN_S: Final = 1.0
_WAIT_S: Final = 0.2
_SWITCH_S: Final = 60.0
"""Nobody keeps the live generation while the new one comes to where that was left."""
_PLACES: Final = threading.BoundedSemaphore(4)
"""Of views that are loaded at once: each has sessions with the source and the state database."""

log = structlog.get_logger("apply")


@dataclass(slots=True)
class ViewBuild:
    """A build, on a thread of its own from ``start`` on.

    ``show`` lets readers see a generation, in place of the one before; it calls what it is given
    when that is kept no more. ``hold``: it is kept beside the live one until the build is stopped,
    and not shown.
    """

    parts: Parts
    host: GenerationRegistry
    name: str
    view: View
    show: Callable[[Connection, Generation, Callable[[], None]], None]
    hold: bool = False
    new_history: bool = False
    """Whether a history may begin anew."""
    steps: Steps = field(default_factory=Steps)
    error: HeadwaterError | None = None
    done: bool = False
    result: dict[str, object] = field(default_factory=dict)
    """What was built, once it is caught up."""
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        self.steps.view = self.name
        self._thread = threading.Thread(target=self._run, name=f"build-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it between two steps; what is loaded can be gone on with."""
        self._stopping.set()

    def join(self) -> None:
        """Until it is done."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_POLL_S)

    @property
    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stopping.is_set()

    @property
    def files(self) -> GenerationFiles:
        return GenerationFiles(self.parts, self.name, self.view)

    def _run(self) -> None:
        try:
            while True:
                try:
                    with translated(f"building view {self.name}"):
                        self._build()
                    break
                except RetryableError as error:
                    self.error = error
                    if self._stopping.is_set():
                        return
                    log.warning(LogEvent.BUILD_INTERRUPTED, view=self.name, error=str(error))
                    self.steps.step(f"tried again: {error}")
                    self._stopping.wait(_AGAIN_S)
            self.error = None
        except Exception as error:
            self.error = translate(error, self.name)
            where = {"trace": found} if (found := trace(error)) else {}
            log.error(LogEvent.VIEW_NOT_BUILT, view=self.name, error=str(self.error), **where)
        finally:
            self.done = True

    def _build(self) -> None:
        began = time.monotonic()
        with place_to_load(self._stopping, self.name), closing(self._connect()) as conn:
            generation = self._gone_on_with(conn) or self._loaded(conn)
        try:
            self._bring_up_to_date(generation)
            self._note(generation, began, live=False)
            if self.hold:
                self.steps.step("caught up; held beside what is live")
                self._stopping.wait()
                self.host.leave(generation)
                return
            with closing(self._connect()) as conn:
                self.show(conn, generation, partial(self._reach_live, generation))
        except BaseException:
            self.host.leave(generation)
            raise
        self._note(generation, began, live=True)
        self.steps.step(f"generation {generation.record.generation} is live")
        log.info(LogEvent.VIEW_BUILT, **self.result)

    def _note(self, generation: Generation, began: float, live: bool) -> None:
        number = generation.record.generation
        self.result = {
            "view": self.name,
            "generation": number,
            "live": live,
            "rows": self.files.read().of[number].rows,
            "seconds": round(time.monotonic() - began, 3),
        }

    def _gone_on_with(self, conn: Connection) -> Generation | None:
        """What an earlier build of this declaration had loaded, made up for what it has missed."""
        found = self.files.read().building
        if found is None or found.phase != "loaded" or found.layout != layout_of(self.view):
            return None
        for record in view_records(conn, self.name):
            if record.generation == found.number and record.is_loaded:
                if not is_built_from(record, self.view):
                    return None
                generation = self.host.reopened(conn, record, self.view)
                if self.view.change_stream and generation.feed is None:
                    self.host.leave(generation)
                    return None
                self.steps.step(f"generation {found.number} is gone on with")
                if generation.record.state == PAUSED:
                    self.host.made_up(conn, generation)
                return generation
        return None

    def _loaded(self, conn: Connection) -> Generation:
        """A new generation, its place in the store filled."""
        generation = self._begun(planned(self.host, conn, self.name, self.view).reads)
        try:
            number = generation.record.generation
            self.steps.step(f"loading into {self.view.store}")
            with self.host.known.unaltered(generation):
                count = load(
                    conn,
                    generation,
                    partial(self._fill, number),
                    partial(self._read, generation),
                    partial(divided, self.parts, generation),
                )
            self._read(generation, count)
            self.host.known.refuse_altered(generation)  # else it goes on as if it lacked nothing
            self.files.loaded(number, count)
        except BaseException:
            self.host.abandon(generation)
            with suppress(HeadwaterError):  # else the next build drops it
                self.files.drop(generation.record.generation)
            raise
        self.steps.step(f"{plural(count, 'row')} loaded")
        return generation

    def _begun(self, tables: Iterable[str]) -> Generation:
        """Note it, and collect its dirty keys from now on."""
        declared = Declared(self.name, self.view, self.parts.config)
        number = self.files.begin(self.view, tuple(tables), self.new_history)
        with self.host.changing() as conn, conn.transaction():
            forget_unknown(conn, self.files)
            # What batches have altered since would be the plan of other tables.
            plan = planned(self.host.as_they_are, conn, self.name, self.view)
            record = begin(conn, declared, number, plan, relation_of)
            generation = opened(conn, record, declared, plan, relation_of)
            kind = self.parts.config.store(self.view.store).kind
            check_names(self.name, kind, spark_columns(generation.columns))
            self.host.begun(generation)
        self.steps.step(f"generation {number} begun")
        return generation

    def _fill(
        self, number: int, rows: Iterable[Rows], columns: StructType, key: tuple[str, ...]
    ) -> None:
        """Make the generation's place in the store and fill it."""
        with closing(self.files.stored(self.view.store, self.view.history)) as stored:
            stored.load(number, rows, columns, key)

    def _read(self, generation: Generation, rows: int) -> None:
        """So many rows were loaded. Raises ``ViewError`` for more than can be computed whole."""
        if self._stopping.is_set():
            raise stopped(self.name)
        at_most = self.parts.config.apply.whole_rows
        if rows > at_most and is_always_whole(generation.kept):
            raise too_large(generation.kept, at_most)
        self.steps.reading(rows)

    def _connect(self) -> Connection:
        return self.parts.server.connect(autocommit=True)

    def _bring_up_to_date(self, generation: Generation) -> None:
        """Keep it, until it has all that is in the mirrors now."""
        self.host.lanes.add(generation, self.view)
        self._catch_up(generation)

    def _reach_live(self, generation: Generation) -> None:
        """Until it is where the live one was left, which is at most that."""
        self.host.lanes.hurry(generation)
        self._catch_up(generation, _SWITCH_S)

    def _catch_up(self, generation: Generation, at_most_s: float = math.inf) -> None:
        """Wait for that; without a session: many views may be at it. Raises ``RetryableError``
        where it takes longer than ``at_most_s``."""
        with closing(self._connect()) as conn:
            target = read_progress(conn).batch
        began = time.monotonic()
        while self.host.reached(generation) < target:
            error = self.host.error(generation)
            self.host.known.refuse_altered(generation)
            if error is not None and not isinstance(error, RetryableError):
                raise error
            if time.monotonic() > began + at_most_s:
                raise error or late(self.name, at_most_s)
            if self._stopping.wait(_POLL_S):
                raise stopped(self.name)
        self.host.known.refuse_altered(generation)


@contextmanager
def place_to_load(stopping: threading.Event, view: str) -> Iterator[None]:
    """One of the places of views that are loaded at once; the others wait, without a session.
    Raises what ``stopped`` gives when it is told to stop meanwhile."""
    while not _PLACES.acquire(timeout=_WAIT_S):
        if stopping.is_set():
            raise stopped(view)
    try:
        yield
    finally:
        _PLACES.release()


def late(view: str, waited_s: float) -> RetryableError:
    """Of a build that did not catch up while nobody kept the live generation."""
    return RetryableError(
        f"view {view}: the new generation lacked changes of the live one for {waited_s:.0f} s",
        "wait: the build tries again",
    )


def stopped(view: str) -> RetryableError:
    """Of a build that was told to stop."""
    return RetryableError(
        f"view {view}: stopped", f"run `headwater view rebuild {view}` to continue"
    )
