"""The rows of a large new view, made and written by Spark's tasks: each reads a range of its keys
in the snapshot of whoever loads it, and writes them by a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from jobs.batch.thresholds import FEW_ROWS, ROWS_HERE
from jobs.run.builds.builder import Generation
from jobs.run.process_parts import Parts
from jobs.sinks.batch_writer import write_rows
from jobs.sinks.rows import Rows
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.mirrors.load_task import LoadTask, Ranges, key_ranges, numbers_of, run_tasks
from jobs.state.server.connection import Connection, translated
from jobs.state.views.rows_query import ROW


@dataclass(slots=True)
class Divided:
    """The rows of a generation, for ``jobs.sinks.rows.write_each``. ``conn`` is in the transaction
    that loads it; ``rows`` are all of them, made here."""

    parts: Parts
    conn: Connection
    generation: Generation
    rows: Iterable[Rows]
    ranges: Ranges

    @property
    def count(self) -> int:
        return self.ranges.rows

    def __iter__(self) -> Iterator[Rows]:
        yield from self.rows

    def write(self, writer: Callable[[Any], None]) -> None:
        tasks = self._tasks(writer)
        numbers = self.parts.spark.range(0, len(tasks), 1, len(tasks))
        write_rows(numbers, FEW_ROWS + 1, numbers_of, partial(run_tasks, tasks))

    def _tasks(self, writer: Callable[[Any], None]) -> list[LoadTask]:
        kept, form = self.generation.kept, self.generation.form
        whole = kept.plan.whole(kept.relation)
        shown = ", ".join(form.expressions(ROW, ROW))
        with translated(f"loading view {kept.name}"):
            row = self.conn.execute(b"select pg_catalog.pg_export_snapshot()").fetchone()
            assert row is not None, "a function has one row"
            position = read_progress(self.conn).position
        return [
            LoadTask(
                self.parts.server.dsn,
                str(row[0]),
                kept.name,
                f"select {shown} from (select * from ({whole}) v where {some}) {ROW}",
                form,
                position,
                writer,
            )
            for some in self.ranges.conditions
        ]


def divided(
    parts: Parts, generation: Generation, conn: Connection, rows: Iterable[Rows]
) -> Divided | None:
    """The rows to be written by tasks; None where they are few, tasks cannot reach the state
    database, or a store takes them all in one commit."""
    store = parts.config.store(generation.record.store)
    if store.kind == "delta" or not parts.reaches_tasks:
        return None
    kept = generation.kept
    whole, tasks = kept.plan.whole(kept.relation), parts.spark.sparkContext.defaultParallelism
    with translated(f"loading view {kept.name}"):
        ranges = key_ranges(conn, f"({whole}) v", kept.plan.key[0], tasks)
    return Divided(parts, conn, generation, rows, ranges) if ranges.rows >= ROWS_HERE else None
