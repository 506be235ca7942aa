"""A part of a load, as a process of its own runs it: a task of Spark's, or a child.

Whoever loads a view holds one transaction and exports its snapshot (``pg_export_snapshot``), so
that all parts see the mirrors at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdc.lsn import Position
from jobs.sinks.postgres.quoting import ident, literal
from jobs.sinks.rows import Rows, write_each
from jobs.spark.garbage_collector import collect_rarely
from jobs.state.server.connection import Connection, connect, translated
from jobs.state.views.store_rows import RowForm

_LOCK_S: Final = 10
_FETCHED: Final = 20_000
"""Rows at a time: a few megabytes, which are written while the next ones are read."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Reads some rows of a view and writes them; can be sent to another process.

    ``select`` gives the expressions of ``form`` and nothing else. ``writer`` makes a connection of
    its own where it is called: ``RedisWriter``, ``OpenSearchWriter``, ``PostgresLoader.finished``.
    """

    dsn: str = field(repr=False)
    snapshot: str
    view: str
    select: str
    form: RowForm
    position: Position
    writer: Callable[[Any], None]

    def __call__(self) -> int:
        """How many rows were written. Raises what ``writer`` raises, a ``RowsError`` when all
        others have been written, and ``RetryableError`` for a state database that is away, or a
        mirror that is about to be replaced."""
        with closing(connect(self.dsn, autocommit=True)) as conn:
            reading = _Reading(conn, self)
            with translated(f"loading view {self.view}"), conn.transaction():
                write_each(self.view, reading, self.writer)
        return reading.count


def ready(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run by a worker that is to have imported all of this."""
    yield from batches


def numbers_of(batch: pa.RecordBatch) -> list[int]:
    """Which tasks a worker of Spark's is to run."""
    found: list[int] = batch.column(0).to_pylist()
    return found


def run_tasks(tasks: Sequence[LoadTask], numbers: Iterable[int]) -> None:
    """Run some of these. It is here, and not with who plans them, as a worker first imports what
    it runs."""
    collect_rarely()
    for number in numbers:
        tasks[number]()


class _Reading:
    """The rows of a task, once."""

    def __init__(self, conn: Connection, task: LoadTask) -> None:
        self._conn, self._task, self.count = conn, task, 0

    def __iter__(self) -> Iterator[Rows]:
        task = self._task
        self._conn.execute(b"set transaction isolation level repeatable read, read only")
        self._conn.execute(f"set transaction snapshot {literal(task.snapshot)}".encode())
        # Who waits for whoever loads, to replace a mirror, is not waited for by a part of the load.
        self._conn.execute(f"set local lock_timeout = '{_LOCK_S}s'".encode())
        with self._conn.cursor(name="headwater_part") as cursor:
            cursor.execute(task.select.encode())
            while found := cursor.fetchmany(_FETCHED):
                yield task.form.rows(found, task.position)
                self.count += len(found)


class Ranges(NamedTuple):
    """How many rows a relation has, and conditions that divide them, all together once each."""

    rows: int
    conditions: Sequence[str]


def key_ranges(conn: Connection, relation: str, column: str, parts: int) -> Ranges:
    """Conditions that divide the rows of a relation, by a column without NULL, into about as many
    parts of about the same size: at most ``parts``."""
    name = ident(column)
    fractions = ", ".join(str(number / parts) for number in range(1, parts))
    query = (
        "select c.rows, array(select distinct bound from unnest(c.bounds) bound "
        "where bound is not null order by bound)::text[] from (select count(*) as rows, "
        f"percentile_disc(array[{fractions}]::float8[]) within group (order by {name}) as bounds "
        f"from {relation}) c"
    )
    row = conn.execute(query.encode()).fetchone()  # no parameters: a name may hold a percent sign
    assert row is not None, "an aggregate has one row"
    bounds = [literal(text) for text in row[1]]
    if not bounds:
        return Ranges(row[0], ["true"])
    between = [f"{name} >= {a} and {name} < {b}" for a, b in pairwise(bounds)]
    return Ranges(row[0], [f"{name} < {bounds[0]}", *between, f"{name} >= {bounds[-1]}"])
