"""A view that is being built: from its declaration to the moment that readers see it.

Its tables are mirrored, its dirty keys are collected from then on, its place in the store is loaded
from the mirrors, its keeper brings it up to date, and then the store shows it. Killed anywhere it
is begun again: what it had filled beside what readers see is dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import structlog
from pyspark.sql.types import StructType

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError, ViewError
from jobs.faults import trace, translate
from jobs.run.builder import Declared, Generation, begin, load, opened
from jobs.run.generation_files import GenerationFiles
from jobs.run.parts import Parts
from jobs.sinks.rows import Rows
from jobs.sinks.schema import check_names
from jobs.state.connection import Connection
from jobs.state.kept_view import quoted
from jobs.state.mirror_table import MIRROR_SCHEMA, one_identifier
from jobs.state.progress import read_progress
from jobs.state.view_columns import spark_columns
from views.maintain.mirror import MirrorTable
from views.maintain.plan import ViewPlan, plan_view
from views.table_references import tables_read

_POLL_S: Final = 0.02
_AGAIN_S: Final = 1.0

log = structlog.get_logger("apply")


class Host(Protocol):
    """The process that a view is built in."""

    def mirrored(self, conn: Connection, labels: tuple[str, ...]) -> Mapping[str, MirrorTable]:
        """These tables, mirrored from now on; fills what is missing."""

    def changing(self) -> AbstractContextManager[Connection]:
        """No batch is applied herein; the next one knows what was begun."""

    def begun(self, generation: Generation) -> None:
        """Its dirty keys are to be collected, within ``changing``; kept once it is loaded."""

    def keep(self, generation: Generation, live: bool) -> Callable[[], int]:
        """Keep it; ``live``: readers see it, in place of the one before. What is given tells the
        last batch that its store holds whole."""

    def abandon(self, generation: Generation) -> None:
        """It is not built after all: forget it."""


@dataclass(slots=True)
class ViewBuild:
    """A build, on a thread of its own from ``start`` on.

    ``step`` hears what is being done, ``rows`` how many rows were loaded. ``hold``: it is kept
    beside the live one and not shown.
    """

    parts: Parts
    host: Host
    name: str
    view: View
    stopping: threading.Event
    hold: bool = False
    step: Callable[[str], None] = lambda _: None
    rows: Callable[[int], None] = lambda _: None
    error: HeadwaterError | None = None
    done: bool = False
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"build-{self.name}", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._build()
                    break
                except RetryableError as error:
                    self.error = error
                    log.warning("build_interrupted", view=self.name, error=str(error))
                    self.stopping.wait(_AGAIN_S)
            self.error = None
        except Exception as error:
            self.error = translate(error, self.name)
            where = {"trace": found} if (found := trace(error)) else {}
            log.error("view_not_built", view=self.name, error=str(self.error), **where)
        finally:
            self.done = True

    def _build(self) -> None:
        began = time.monotonic()
        with closing(self.parts.server.connect(autocommit=True)) as conn:
            generation = self._begun(planned(self.host, conn, self.name, self.view))
            try:
                self._load(conn, generation)
                self._bring_up_to_date(conn, generation)
            except BaseException:
                self.host.abandon(generation)
                raise
        log.info(
            "view_built",
            view=self.name,
            generation=generation.record.generation,
            live=not self.hold,
            seconds=round(time.monotonic() - began, 3),
        )

    def _begun(self, plan: ViewPlan) -> Generation:
        """Note it, and collect its dirty keys from now on."""
        declared = Declared(self.name, self.view, self.parts.config)
        number = GenerationFiles(self.parts, self.name).begin(self.view, tuple(plan.reads))
        with self.host.changing() as conn, conn.transaction():
            record = begin(conn, declared, number, plan, relation_of)
            generation = opened(conn, record, declared, plan, relation_of)
            kind = self.parts.config.store(self.view.store).kind
            check_names(self.name, kind, spark_columns(generation.columns))
            self.host.begun(generation)
        self.step(f"generation {number} begun")
        return generation

    def _load(self, conn: Connection, generation: Generation) -> None:
        number = generation.record.generation
        self.step(f"loading into {self.view.store}")
        count = load(conn, generation, partial(self._fill, number), self.rows)
        GenerationFiles(self.parts, self.name).loaded(number, count)
        self.step(f"{count:,} rows loaded")

    def _fill(
        self, number: int, rows: Iterable[Rows], columns: StructType, key: tuple[str, ...]
    ) -> None:
        """Make the generation's place in the store and fill it."""
        parts, store = self.parts, self.view.store
        with closing(GenerationFiles(parts, self.name).stored(store)) as stored:
            stored.load(number, rows, columns, key)

    def _bring_up_to_date(self, conn: Connection, generation: Generation) -> None:
        target = read_progress(conn).batch
        reached = self.host.keep(generation, live=False)
        while reached() < target:
            if self.stopping.wait(_POLL_S):
                raise RetryableError(f"view {self.name}: stopped", "the next start builds it")
        if self.hold:
            self.step("caught up; held beside what is live")
            return
        self.host.keep(generation, live=True)
        self.step(f"generation {generation.record.generation} is live")


def planned(host: Host, conn: Connection, name: str, view: View) -> ViewPlan:
    """The plan of a view over mirrors that there are. Raises ``ViewError`` for what cannot be."""
    labels = tuple(table.name for table in tables_read(name, view.sql))
    if not labels:
        raise ViewError(f"views.{name}.sql reads no table", "select from captured tables")
    return plan_view(name, view.sql, view.key, host.mirrored(conn, labels))


def relation_of(label: str) -> str:
    """The mirror of ``schema.table``, as SQL."""
    schema, _, table = label.partition(".")
    return f"{MIRROR_SCHEMA}.{quoted(one_identifier(schema, table))}"
