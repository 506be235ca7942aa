"""Histories: views of one table whose store keeps what rows were, given every change.

A batch queues what each change makes of the view's row (``jobs.state.histories.changes``); the lane
of the store drains the queue. A generation is loaded with the rows of the mirror, each under the
position of its own last change, so that whatever comes twice is known by its position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from cdc.events.codes import SNAPSHOT
from cdc.lsn import Position
from jobs.run.views.view_keeper import Turn
from jobs.sinks.arrow import python_values
from jobs.sinks.contract import (
    COMMIT_LSN,
    COMMITTED_AT,
    DELETED,
    OP,
    ORDINAL,
    UNCHANGED,
    Batch,
    ViewRow,
)
from jobs.sinks.delta.history.columns import CURRENT, FROM
from jobs.sinks.row_errors import Refused
from jobs.sinks.rows import Rows, unfit_cause
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.histories.queue import (
    UNTOLD,
    History,
    Queued,
    columns_of,
    committed_us,
    note_added,
    note_adding,
    note_columns,
    reached,
    settle,
    take,
)
from jobs.state.histories.rows import HistoryRows, with_rows
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.server.connection import Connection, translated
from jobs.state.values.arrow_values import arrow_column
from jobs.state.views.store_rows import RowForm
from jobs.state.views.view_columns import ViewColumn, spark_columns
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.view_record import ViewRecord
from views.histories import history_key

_CHANGES_A_TURN: Final = 10_000
"""So many are put in order and written without a job of Spark's."""
_US: Final = pa.timestamp("us", "UTC")


class HistorySink(Protocol):
    """``jobs.sinks.delta.history.table.DeltaHistory``."""

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool: ...

    def write_changes(self, changes: pa.Table, batch: Batch) -> None: ...

    def scan(self) -> Iterator[ViewRow]: ...

    def close(self) -> None: ...


def opened_history(
    conn: Connection,
    record: ViewRecord,
    kept: ViewGeneration,
    columns: Sequence[ViewColumn],
    form: RowForm,
    relation: Callable[[str], str],
) -> History | None:
    """What batches need of a generation that is a history, None of another one. Raises
    ``ViewError`` for SQL of which there is no history."""
    if not record.history:
        return None
    keys = {label: held.table.key for label, held in read_mirrors(conn).items()}
    key = history_key(record.history, kept.plan, keys, kept.names)
    (label,) = kept.plan.reads
    shape = note_columns(conn, record.id, spark_columns(columns))
    return History(kept, form, key, shape, relation(label))


@dataclass(slots=True)
class HistoryKeeper:
    """Writes what is queued of one history to its store, in order. A
    ``jobs.run.views.lane.Keeper``.

    Killed between a write and its note it writes the same changes again, which are known there by
    their positions.
    """

    history: History
    sink: HistorySink
    left_out_at_most: int = 1_000
    clock: Callable[[], float] = time.monotonic
    _columns: dict[int, StructType] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        return self.history.view.name

    def close(self) -> None:
        self.sink.close()

    def turn(self, conn: Connection) -> Turn:
        """Write the changes that have waited longest."""
        began, id_ = self.clock(), self.history.id
        with translated(f"taking changes of history {self.name}"):
            taken = take(conn, id_, _CHANGES_A_TURN)
            if not taken.changes:
                return Turn(taken.batch)
            changes = self._table(conn, taken.changes)
            untold, count = taken.changes[0].op == UNTOLD, len(changes)
            if untold:
                count = note_adding(conn, id_, taken.changes[0].batch, count)
        last = taken.changes[-1].seq
        if len(changes):
            self.sink.write_changes(changes, Batch(self.name, str(id_), last, len(changes)))
        with translated(f"settling history {self.name}"), conn.transaction():
            settle(conn, id_, last)
            if untold:
                note_added(conn, id_, taken.changes[0].batch, count)
            at, more = reached(conn, id_, taken), taken.next_batch is not None
        return Turn(at, len(taken.changes), len(changes), 0, more, self.clock() - began)

    def _table(self, conn: Connection, changes: Sequence[Queued]) -> pa.Table:
        if changes[0].op == UNTOLD:
            untold = partial(self._untold, conn, changes[0])
            return with_rows(conn, self.history, self.left_out_at_most, untold)
        shape = changes[0].shape
        if shape not in self._columns:
            self._columns[shape] = columns_of(conn, self.history.id, shape)
        return changes_table(self._columns[shape], changes)

    def _untold(self, conn: Connection, at: Queued, found: HistoryRows) -> pa.Table:
        """What the mirror has and the store has not, read again under the positions that it has
        there. What the store alone has is gone since its key was changed or deleted last; where
        nobody remembers that, since ``at``, or right behind its own last row: changes of other keys
        may be later than its return, which a partition that is behind has yet to bring."""
        history, columns = self.history, columns_of(conn, self.history.id, self.history.shape)
        key, schema = history.view.plan.key, _schema(columns)
        held = {row.key: (_digest(row.values.values()), row.position) for row in self.sink.scan()}
        parts = []
        for some in found:
            rows = changes_table(columns, _read_again(some, at.committed_us))
            parts.append(_differing(rows, schema.names, key, held))
        for left_out in _keys_of(found.left_out, key, columns):  # it stays as it is there
            held.pop(left_out, None)
        last = dict.fromkeys(held, Position(at.commit_lsn, at.ordinal))
        for some in found.last_known() if held else ():
            for of, (lsn, ordinal, *_) in zip(_keys_of(some, key, columns), some, strict=True):
                if of in last:
                    last[of] = Position(lsn, ordinal)
        gone = [
            pa.array([of[number] for of in held], schema.field(name).type)
            for number, name in enumerate(key)
        ]
        positions = (_behind(held[of][1], last[of])._asdict() for of in held)
        beside = _beside([at._replace(op="d", **position) for position in positions])
        parts.append(pa.table([*gone, *beside], [*key, *_BESIDE]))
        return pa.concat_tables(parts, promote_options="default")


def _differing(
    rows: pa.Table,
    names: Sequence[str],
    key: Sequence[str],
    held: dict[tuple[Any, ...], tuple[int, Position]],
) -> pa.Table:
    """The rows that are other ones than the store holds; ``held`` has those left out then. One that
    the store has under the same position, or a later one, is read again next to that: changes of
    other partitions may be later, and this row's next change not be here yet."""
    columns = {name: python_values(rows.column(name)) for name in names}
    values = zip(*columns.values(), strict=True)
    keys = zip(*(columns[name] for name in key), strict=True)
    lsns, ordinals = (rows.column(name).to_pylist() for name in (COMMIT_LSN, ORDINAL))
    found = []
    for number, (of, row) in enumerate(zip(keys, values, strict=True)):
        digest, position = held.pop(of, (None, None))
        if digest == _digest(row):
            continue
        found.append(number)
        if position is not None:
            lsns[number], ordinals[number] = _behind(
                position, Position(lsns[number], ordinals[number])
            )
    for name, of_rows in ((COMMIT_LSN, lsns), (ORDINAL, ordinals)):
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pa.array(of_rows, pa.int64()))
    return rows.take(pa.array(found, pa.int64()))


def _behind(held: Position, at: Position) -> Position:
    """Of what differs from a row that the store has: ``at``, or next to it, if that is later."""
    return max(at, held._replace(ordinal=held.ordinal + 1))


def _keys_of(
    rows: Sequence[Sequence[Any]], key: Sequence[str], columns: StructType
) -> Iterator[tuple[Any, ...]]:
    """The keys of rows of ``History.whole``, as the store has them."""
    schema = _schema(columns)
    places = [schema.get_field_index(name) for name in key]
    texts = [row[2] for row in rows if row[3] not in key]
    found = (
        arrow_column(pa.array([of[place] for of in texts], pa.string()), schema.field(place).type)
        for place in places
    )
    yield from zip(*map(python_values, found), strict=True)


def _digest(values: Iterable[Any]) -> int:
    return hash(repr(tuple(values)))


_BESIDE: Final = (DELETED, COMMIT_LSN, ORDINAL, UNCHANGED, COMMITTED_AT, OP)


def changes_table(columns: StructType, changes: Sequence[Queued]) -> pa.Table:
    """Changes as ``DeltaHistory.write_changes`` takes them."""
    schema = _schema(columns)
    nothing = [None] * len(schema)
    texts = zip(*(one.texts or nothing for one in changes), strict=True)
    arrays = [
        arrow_column(pa.array(of, pa.string()), one.type)
        for of, one in zip(texts, schema, strict=True)
    ]
    return pa.table([*arrays, *_beside(changes)], [*schema.names, *_BESIDE])


def _beside(changes: Sequence[Queued]) -> list[pa.Array]:
    return [
        pa.array([one.gone for one in changes], pa.bool_()),
        pa.array([one.commit_lsn for one in changes], pa.int64()),
        pa.array([one.ordinal for one in changes], pa.int64()),
        pa.nulls(len(changes), pa.list_(pa.string())),
        pa.array([one.committed_us for one in changes], pa.int64()).cast(_US),
        pa.array([one.op for one in changes], pa.string()),
    ]


def _schema(columns: StructType) -> pa.Schema:
    return to_arrow_schema(columns, timezone="UTC")


def _read_again(found: Sequence[Sequence[Any]], at_us: int | None) -> list[Queued]:
    """Rows of ``History.whole`` whose values fit, as changes."""
    return [
        Queued(0, 0, lsn, ordinal, at_us, SNAPSHOT, False, 0, texts)
        for lsn, ordinal, texts, unfit in found
        if unfit is None
    ]


@dataclass(slots=True)
class LoadedHistory:
    """The rows of a history as the mirror has them, for a table that is filled with them; once."""

    conn: Connection
    record: ViewRecord
    history: History
    columns: StructType
    told: Callable[[int], None]
    left_out_at_most: int | None = None
    """Without rows that cannot be made, so many at most; None: there are none."""
    count: int = 0

    def __iter__(self) -> Iterator[Rows]:
        at_us = committed_us(read_progress(self.conn))
        for found in HistoryRows(self.conn, self.history, self.left_out_at_most):
            yield self._rows(found, at_us)
            self.count += len(found)
            self.told(self.count)

    def _rows(self, found: Sequence[Sequence[Any]], at_us: int | None) -> Rows:
        refused = tuple(
            Refused("", Position(row[0], row[1]), unfit_cause(row[3], "the view"))
            for row in found
            if row[3] is not None
        )
        rows = changes_table(self.columns, _read_again(found, at_us))
        if self.record.history == "scd2":
            rows = rows.append_column(FROM, rows.column(COMMITTED_AT))
            rows = rows.append_column(CURRENT, pa.array([True] * len(rows), pa.bool_()))
        return Rows(rows, refused)
