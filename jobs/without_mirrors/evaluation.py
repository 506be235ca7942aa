"""One micro-batch: evaluated once, then given to the sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.events.codes import SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import COMMIT_LSN, DELETED, OP, ORDINAL, Batch, Sink
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.batch_counts import Account, account
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.fold import EVENT, Step
from jobs.without_mirrors.late_snapshot_rows import Returning
from jobs.without_mirrors.projection import (
    each_event_of,
    each_row_of,
    filled_events_of,
    filled_rows_of,
    loaded_rows_of,
    project,
    rows_of,
)
from jobs.without_mirrors.schemas_topic import Versions
from views.spark.resolution import ResolvedView

NOWHERE = Position(0, 0)


class Model:
    """The view as resolved against the newest version of its table.

    ``rows`` makes what a sink applies of a batch's records, ``filled_rows`` that of a batch with
    gaps it may fill itself. ``every``: of each event, in place of each key's last one.
    """

    def __init__(self, view: ResolvedView, versions: Versions, every: bool = False) -> None:
        self.view, self.versions, self.every = view, versions, every
        self.rows = (each_row_of if every else rows_of)(view, versions)
        self._parts = dict[Part, Step]()

    @cached_property
    def filled_rows(self) -> Step:
        """Built when a batch first has gaps: most views never meet one."""
        return filled_rows_of(self.view, self.versions)

    def events(self, part: Part = Part.WHOLE) -> Step:
        """What rows of a part of a batch are projected from, with gaps filled."""
        if part not in self._parts:
            events = each_event_of if self.every else filled_events_of
            self._parts[part] = events(self.view, self.versions, part)
        return self._parts[part]

    def part(self, part: Part) -> Step:
        """As ``filled_rows``, of a part of a batch."""
        events, projected = self.events(part), project(self.view, self.versions)
        return lambda records: projected(events(records))

    @cached_property
    def loaded_rows(self) -> Step:
        """For records with a key each of their own, as a snapshot has them."""
        return loaded_rows_of(self.view, self.versions)

    @property
    def columns(self) -> StructType:
        """The view's columns as a store is to hold them."""
        return columns_of(self.view)


def evaluate(
    model: Model, records: DataFrame, part: Part | None = None
) -> tuple[DataFrame, Account]:
    """A batch's rows, cached: ``released`` lets them go. And what they amount to. ``part``: of that
    alone, and with gaps filled at once."""
    if part is not None:
        return _held(model.part(part)(records))
    rows, counted = _held(model.rows(records))
    if counted.gaps:
        with released(rows):
            return _held(model.filled_rows(records))
    return rows, counted


class Applier:
    """Gives a view's batches to its sink. ``created``: the store was made just now. ``returning``
    is for a store that keeps nothing of a row that was deleted.

    What a generation was filled with from a snapshot is left out of its stream: all that was
    committed before it was read first, and all but deletes before it was read last.

    TRUNCATE stands in every partition and is carried out where it is met first. What the other
    partitions bring of the time before it is left out from then on: it would come to rows that
    the store does not hold any more. A store that keeps ``every`` change finds its place for it,
    and is given TRUNCATE among the rows.

    ``fills``: the last batch had values from a late row of a snapshot, so that it is likely that
    the next one has gaps, too.
    """

    fills = False

    def __init__(
        self,
        view: str,
        state: ViewState,
        sink: Sink,
        created: bool,
        returning: Returning | None = None,
        every: bool = False,
    ) -> None:
        self._view, self._state, self._sink = view, state, sink
        self._returning, self._every = returning, every
        self._empty = created
        beginning = state.beginning()
        self._begin = NOWHERE if beginning is None else Position(beginning.lsn, 0)
        self._whole = self._begin if beginning is None else Position(beginning.upto, 0)
        truncated = None if every else state.truncated()
        self._truncated = max(truncated or self._begin, self._begin)
        self._newest = NOWHERE if created else None

    def begins_behind(self, position: Position) -> bool:
        """Whether the generation was filled with rows that are newer."""
        return position < self._whole

    def may_have_newer(self, position: Position) -> bool:
        """Whether a change was applied before, or may have been, that is newer."""
        return self._newest is None or position < self._newest

    def learn(self, newest: Callable[[], Position]) -> None:
        """The newest change that was applied before, where it is not known."""
        if self._newest is None:
            self._newest = newest()

    def is_news(self, position: Position, deletes: bool) -> bool:
        """Whether an event is not left out anyway: ``news_of`` has the same rule."""
        begin = max(self._truncated, self._begin)
        return position >= begin and (deletes or position >= self._whole)

    def apply(self, held: DataFrame, counted: Account, number: int, step: str = "") -> Batch:
        """Make the store equal to what ``evaluate`` gave for batch ``number``; ``step`` tells apart
        what else it is given under that number."""
        generation = ":".join(filter(None, (self._state.generation, step)))
        batch = Batch(self._view, generation, number, counted.keys)
        self._apply(held, counted, batch)
        self.fills = False
        if self._newest is not None and counted.newest is not None:
            self._newest = max(self._newest, counted.newest)
        return batch

    def _apply(self, held: DataFrame, counted: Account, batch: Batch) -> None:
        if self._every:
            if self._returning is not None:
                held = self._returning.deleted_again(held, counted, batch.number)
            self._sink.apply(_changes(held, self._begin, self._whole), batch)
            return
        truncated = counted.truncated
        if truncated is not None and truncated < self._begin:
            truncated = None
        if truncated is not None and truncated > self._truncated:
            self._state.remember_truncated(truncated)
            self._truncated = truncated
        if counted.keys:
            rows = news_of(held, self._truncated, self._whole, self._empty)
            if self._returning is not None:
                rows = self._returning.without(rows, counted, batch.number)
            self._sink.apply(rows, batch)
            self._empty = False
        if truncated is not None:
            self._sink.truncate(truncated, batch)


@contextmanager
def released(held: DataFrame) -> Iterator[None]:
    """Let cached rows go at the end. After a fault, which may be Spark's end, it need not work."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            held.unpersist()
        raise
    held.unpersist()


def _held(rows: DataFrame) -> tuple[DataFrame, Account]:
    """``rows`` evaluated into the cache, and what they amount to."""
    rows = rows.persist()
    try:
        return rows, account(rows)
    except BaseException:
        with suppress(Exception):
            rows.unpersist()
        raise


def news_of(held: DataFrame, truncated: Position, whole: Position, empty: bool) -> DataFrame:
    """What the sink gets: without TRUNCATE, and without what one has removed.

    A store that is empty has no row that a snapshot row outside the view's filter could replace.
    Below ``whole`` only deletes are news.
    """
    rows = held.where(~(F.col(DELETED) & (F.col(EVENT)["op"] == SNAPSHOT))) if empty else held
    position = F.struct(COMMIT_LSN, ORDINAL)
    if truncated > NOWHERE:
        rows = rows.where((F.col(EVENT)["op"] != TRUNCATE) & (position >= _struct(truncated)))
    if whole > truncated:
        rows = rows.where(F.col(DELETED) | (position >= _struct(whole)))
    rows = rows.drop(EVENT)
    # Projections of cached rows: a sink that reads them twice need not cache them again.
    rows.is_cached = True
    return rows


def _changes(held: DataFrame, begin: Position, whole: Position) -> DataFrame:
    """What a sink gets that keeps every change: TRUNCATE too, and what was done to each row."""
    rows = held.withColumn(OP, F.col(EVENT)["op"]).drop(EVENT)
    position = F.struct(COMMIT_LSN, ORDINAL)
    if begin > NOWHERE:
        rows = rows.where(position >= _struct(begin))
    if whole > begin:
        rows = rows.where(F.col(DELETED) | (position >= _struct(whole)))
    rows.is_cached = held.is_cached
    return rows


def _struct(position: Position) -> Column:
    return F.struct(*(F.lit(part).cast("bigint") for part in position))
