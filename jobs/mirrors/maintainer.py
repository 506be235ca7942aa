"""One micro-batch of a view over mirrors: changes, touched keys, their rows made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.lsn import Position
from jobs.applying import NOWHERE
from jobs.fold import EVENT, TRUNCATE
from jobs.mirrors.attempts import read_attempts, write_attempts
from jobs.mirrors.changes import at, write_changes
from jobs.mirrors.mirror import Mirror
from jobs.mirrors.queries import Maintenance, relations_of
from jobs.sinks import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED, Batch, Sink
from jobs.sinks.schema import quoted
from views.maintained import MaintainedView

_THERE = "__there"


class Maintainer:
    """Keeps a store equal to a view over mirrors in ``directory``, batch by batch."""

    def __init__(
        self,
        session: SparkSession,
        view: MaintainedView,
        columns: StructType,
        mirrors: Mapping[str, Mirror],
        directory: Path,
    ) -> None:
        self._session, self._view, self._columns = session, view, columns
        self._mirrors, self._directory = mirrors, directory
        self._maintenance = Maintenance(view, mirrors)

    def apply(self, rows: Mapping[str, pa.Table], sink: Sink, generation: str, number: int) -> int:
        """Make the mirrors and the store equal to folded changes of tables; the keys touched.

        Whatever a killed attempt left behind is made good.
        """
        before = read_attempts(self._directory)
        now = before.begun(max(map(_highest, rows.values())), _truncated(rows))
        write_attempts(self._directory, now)
        changes = {
            name: write_changes(
                self._view.name, mirror, rows[name], before, now, now.truncated.get(name, NOWHERE)
            )
            for name, mirror in self._mirrors.items()
        }
        keys = self._maintenance.touched(self._session, changes, before.settled)
        if len(keys):
            made = _made_anew(
                self._maintenance, self._session, self._columns, keys, now.position, _oldest(rows)
            )
            with made as anew:
                sink.apply(anew, Batch(self._view.name, generation, number, len(keys)))
        write_attempts(self._directory, now.done())
        for mirror in self._mirrors.values():
            mirror.tend()
        return len(keys)


def _highest(rows: pa.Table) -> int:
    return pc.max(rows.column(COMMIT_LSN)).as_py() or 0


def _oldest(rows: Mapping[str, pa.Table]) -> int | None:
    """When the oldest of the changes was committed, microseconds since 1970."""
    found = [pc.min(pc.struct_field(of.column(EVENT), "oldest_us")).as_py() for of in rows.values()]
    return min((at for at in found if at is not None), default=None)


def _truncated(rows: Mapping[str, pa.Table]) -> dict[str, Position]:
    """The newest TRUNCATE of each table that has one."""
    found = {}
    for name, of_table in rows.items():
        some = of_table.filter(pc.equal(pc.struct_field(of_table.column(EVENT), "op"), TRUNCATE))
        if len(some):
            found[name] = max(at(some))
    return found


@contextmanager
def _made_anew(
    maintenance: Maintenance,
    session: SparkSession,
    columns: StructType,
    keys: pa.Table,
    position: Position,
    committed_us: int | None,
) -> Iterator[DataFrame]:
    """What a sink applies for touched keys, cached: their rows, deletions where there is none."""
    names = list(keys.column_names)
    with relations_of(session) as relations:
        rows = maintenance.rows(session, keys, relations).withColumn(_THERE, F.lit(True))
        wanted = session.createDataFrame(keys).alias("k")
        same = [F.col(f"k.{quoted(name)}") == F.col(f"r.{quoted(name)}") for name in names]
        joined = wanted.join(rows.alias("r"), reduce(and_, same), "left")
        shown = [
            F.col(f"{'k' if field.name in names else 'r'}.{quoted(field.name)}")
            .cast(field.dataType)
            .alias(field.name)
            for field in columns
        ]
        gone = F.col(f"r.{_THERE}").isNull()
        held = joined.select(*shown, *controls(position, committed_us, gone))
        held = held.persist()
        try:
            yield held
        finally:
            held.unpersist()


def controls(position: Position, committed_us: int | None, deleted: Column) -> list[Column]:
    """What a sink needs beside the view's columns, the same of all rows but for ``deleted``."""
    at = F.lit(None).cast("timestamp")
    if committed_us is not None:
        at = F.timestamp_micros(F.lit(committed_us))
    return [
        deleted.alias(DELETED),
        F.lit(position.commit_lsn).cast("bigint").alias(COMMIT_LSN),
        F.lit(position.ordinal).cast("bigint").alias(ORDINAL),
        F.expr("cast(array() as array<string>)").alias(UNCHANGED),
        at.alias(COMMITTED_AT),
    ]
