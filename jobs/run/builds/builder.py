"""A generation of a view, built from the mirrors beside what readers see.

Its dirty keys are collected from the batch on that makes its tables here, so nothing is missed
between the load, which sees the mirrors at one later moment, and the stream. Then its place in the
store is loaded, its keeper brings it up to date, and the store shows it, from one moment to the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
import structlog
from pyspark.sql.types import StructType

from cdc.config import Config, View
from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent
from cdc.source.errors import sqlstate
from cdc.source.types import load_types
from jobs.run.views.histories import LoadedHistory, opened_history
from jobs.run.views.view_keeper import DATA_EXCEPTIONS
from jobs.sinks.row_errors import Refused, RowsRefusedError, RowsUnfitError
from jobs.sinks.rows import Rows
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.dead_letters.parked_keys import too_many_parked
from jobs.state.feeds.feed_tables import Feed, begin_filling, fill_feed, make_feed, opened_feed
from jobs.state.groups.tables import fill_groups, with_groups
from jobs.state.histories.queue import History, make_queue, make_up_for_history
from jobs.state.mirrors.indexes import make_indexes
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.server.connection import Connection, translated
from jobs.state.views.dirty_keys import put_off
from jobs.state.views.first_columns import first_columns, remember_first_columns
from jobs.state.views.key_types import refuse_keys_of_several_texts
from jobs.state.views.known_columns import known_columns
from jobs.state.views.missed_changes import make_up_for, mark_every_key
from jobs.state.views.rows_query import KEY, ROW, load_sql, remember_sql
from jobs.state.views.store_rows import ArrowForm, RowForm, form_of_store
from jobs.state.views.text_columns import text_columns
from jobs.state.views.view_columns import ViewColumn, described, spark_columns
from jobs.state.views.view_generation import (
    Relation,
    ViewGeneration,
    follow_key_types,
    make_tables,
    read_key,
)
from jobs.state.views.view_names import ViewNames, present, remember_names, view_names
from jobs.state.views.view_record import ViewRecord, add_view, note_loaded
from views.maintain.plan import ViewPlan

log = structlog.get_logger("apply")

_LOAD_ROWS: Final = 20_000
_AS_THEY_ARE: Final = ViewNames()


LoadedStore = Callable[[Iterable[Rows], StructType, tuple[str, ...]], None]
"""Makes a place in a store and fills it with rows; readers see nothing of it."""


class CountedRows(Protocol):
    """Rows, and how many they are."""

    @property
    def count(self) -> int: ...

    def __iter__(self) -> Iterator[Rows]: ...


Divide = Callable[[Connection, Iterable[Rows]], CountedRows | None]
"""Of the rows of a view, in the transaction that loads them; None: they are made here."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A view as the configuration declares it now."""

    name: str
    view: View
    config: Config


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a view, ready to be kept. ``view`` is how it was declared when it was
    opened."""

    record: ViewRecord
    view: View
    kept: ViewGeneration
    columns: tuple[ViewColumn, ...]
    form: RowForm
    history: History | None = None
    parked_at_most: int = 0
    feed: Feed | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self.kept.plan.key


def opened(
    conn: Connection,
    record: ViewRecord,
    declared: Declared,
    plan: ViewPlan,
    relation: Relation,
    names: ViewNames = _AS_THEY_ARE,
) -> Generation:
    """A generation whose tables are there; ``names`` are what it calls the columns of its
    mirrors."""

    def seen(label: str) -> str:
        return names.reading(label, relation(label))

    with translated(f"opening view {record.name}"):
        follow_key_types(conn, record.id, plan, seen)
        key = read_key(conn, record.id, plan)
        kept = ViewGeneration(record.id, record.name, record.generation, plan, key, seen, names)
        kept = with_groups(conn, kept)
        kept = replace(kept, first_columns=first_columns(conn, record.id))
        types = load_types(conn)
        known = known_columns(conn, record.sql, plan.key, plan.reads, relation, types, names)
        columns = described(conn, plan.whole(seen), types, known)
        refuse_keys_of_several_texts(conn, plan, plan.whole(seen), columns)
    store = declared.config.store(record.store)
    form = form_of_store(store, columns, plan.key, declared.view)
    with translated(f"opening history {record.name}"):
        history = opened_history(conn, record, kept, columns, form, relation)
    with translated(f"opening the changes of view {record.name}"), conn.transaction():
        wanted, old_rows = declared.view.change_stream, declared.config.alerts.is_of(record.name)
        feed = opened_feed(conn, record.id, wanted, columns, plan.key, old_rows)
    at_most = declared.config.apply.dlq_limit
    return Generation(record, declared.view, kept, columns, form, history, at_most, feed)


def begin(
    conn: Connection, declared: Declared, number: int, plan: ViewPlan, relation: Relation
) -> ViewRecord:
    """Note a new generation, and make its tables and the indexes that it needs, in one transaction:
    no batch runs meanwhile."""
    view = declared.view
    with translated(f"beginning view {declared.name}"), conn.transaction():
        record = add_view(conn, declared.name, number, view.sql, view.key, view.store, view.history)
        make_indexes(conn, record.id, plan.indexes, relation)
        make_tables(conn, record.id, plan, relation)
        remember_first_columns(conn, record.id, plan.columns)
        if view.history:
            make_queue(conn, record.id)
        if view.change_stream:
            make_feed(conn, record.id, record.name)
        held = read_mirrors(conn)
        tables = {label: present(held[label].table) for label in plan.reads if label in held}
        remember_names(conn, record.id, view_names({}, tables).tables)
    return record


def load(
    conn: Connection,
    generation: Generation,
    store: LoadedStore,
    told: Callable[[int], None] = lambda _: None,
    divide: Divide = lambda _conn, _rows: None,
) -> int:
    """Fill its place in the store from the mirrors as they are now; how many rows it has then.
    ``divide`` may have others make them, too (``jobs.run.builds.parallel_load``).

    What the store was given is remembered, so that later only what differs is written. Rows that
    hold what no column of the view can are left out: their keys are dirty, and parked by the first
    turn. Where rows cannot be made, or the store refuses some, all keys are: turns tell them apart.
    A history, which has no turns for keys, is loaded without such rows: they come with a change.
    Raises ``ViewError`` where more than ``generation.parked_at_most`` would be parked.
    """
    try:
        return _load(conn, generation, store, told, divide)
    except HeadwaterError as error:
        refused = isinstance(error, (RowsRefusedError, RowsUnfitError))
        of_rows = refused or sqlstate(error)[:2] in DATA_EXCEPTIONS
        if not of_rows:
            raise
        log.warning(LogEvent.LOADED_IN_TURNS, view=generation.record.name, error=str(error))
    if generation.history is not None:
        return _load(conn, generation, store, told, divide, generation.parked_at_most)
    load_nothing(conn, generation, store)
    return 0


def _load(
    conn: Connection,
    generation: Generation,
    store: LoadedStore,
    told: Callable[[int], None],
    divide: Divide,
    left_out_at_most: int | None = None,
) -> int:
    record, kept, history = generation.record, generation.kept, generation.history
    columns = spark_columns(generation.columns)
    fill_groups(conn, kept)
    rows: _LoadedRows | LoadedHistory = _LoadedRows(conn, generation, told)
    if history is not None:
        rows = LoadedHistory(conn, record, history, columns, told, left_out_at_most)
    with translated(f"loading view {record.name}"), conn.transaction():
        conn.execute(b"set transaction isolation level repeatable read")
        parts = divide(conn, rows) if history is None else None
        store(parts or rows, columns, generation.key)
        for statement in remember_sql(kept) if history is None else ():
            conn.execute(statement.encode())
        if generation.feed is not None:
            fill_feed(conn, generation.feed, kept)
    with translated(f"loading view {record.name}"), conn.transaction():
        if isinstance(rows, _LoadedRows):
            put_off(conn, kept, rows.unfit)
        note_loaded(conn, record.id)
    return parts.count if parts else rows.count


def make_up(conn: Connection, generation: Generation) -> int:
    """Make up for what batches have passed over; the batch that it is to be written under."""
    if generation.history is not None:
        return make_up_for_history(conn, generation.history)
    return make_up_for(conn, generation.kept)


def load_nothing(conn: Connection, generation: Generation, store: LoadedStore) -> None:
    """Make its place in the store; all keys are dirty, and their rows are written in turns: of a
    view that holds rows which cannot be made, or which the store refuses."""
    store((), spark_columns(generation.columns), generation.key)
    with translated(f"loading view {generation.record.name}"), conn.transaction():
        conn.execute(f"truncate {generation.kept.shown}".encode())
        if generation.feed is not None:
            begin_filling(conn, generation.feed)
        mark_every_key(conn, generation.kept)
        note_loaded(conn, generation.record.id)


class _LoadedRows:
    """The rows of a view, read by a cursor, in the form of its store; once."""

    def __init__(
        self,
        conn: Connection,
        generation: Generation,
        told: Callable[[int], None],
    ) -> None:
        self._conn, self._generation, self._told = conn, generation, told
        self._at_most = generation.parked_at_most
        self.count = 0
        self.unfit: list[tuple[str, ...]] = []
        """The keys of rows that were left out."""

    def __iter__(self) -> Iterator[Rows]:
        key = len(self._generation.kept.key)
        for found, rows in self._made():
            if rows.unfit:
                self._leave_out(found(), key, rows.unfit)
            yield replace(rows, unfit=())
            self.count += len(rows.written)
            self._told(self.count)

    def _made(self) -> Iterator[tuple[Callable[[], Sequence[Sequence[Any]]], Rows]]:
        """Some rows, and what they were made of."""
        kept, form = self._generation.kept, self._generation.form
        position = read_progress(self._conn).position
        key, shown = len(kept.key), form.expressions(ROW, KEY)
        select = load_sql(kept, shown)
        if isinstance(form, ArrowForm):
            for table in text_columns(self._conn, select, key + len(shown)):
                rows = form.of_columns(table.columns[key:], position)
                yield partial(_rows_of, table), rows
            return
        with self._conn.cursor(name="headwater_load") as cursor:
            cursor.execute(select.encode())
            while found := cursor.fetchmany(_LOAD_ROWS):
                yield partial(list, found), form.rows([row[key:] for row in found], position)

    def _leave_out(
        self, found: Sequence[Sequence[Any]], behind: int, unfit: Sequence[Refused]
    ) -> None:
        ids = {one.id for one in unfit}
        self.unfit += [tuple(row[:behind]) for row in found if row[behind] in ids]
        if len(self.unfit) > self._at_most:
            raise too_many_parked(
                self._generation.record.name, len(self.unfit), self._at_most, unfit[0].cause
            )


def _rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
