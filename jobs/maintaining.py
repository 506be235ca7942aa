"""One micro-batch of a view over mirrors: changes, touched keys, their rows made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.lsn import Position
from jobs.applying import NOWHERE
from jobs.fold import EVENT, TRUNCATE
from jobs.mirrors.attempts import read_attempts, write_attempts
from jobs.mirrors.changes import Changed, at, write_changes
from jobs.mirrors.mirror import Mirror
from jobs.sinks import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED, Batch, Sink
from jobs.sinks.schema import quoted
from views.maintained import MaintainedView
from views.maintenance import CHANGED, KeyQuery, key_queries, recomputation, whole
from views.narrowing import Narrowing
from views.selecting import KEYS

_THERE = "__there"
_VIEWS = count()


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


class Maintenance:
    """The queries of a view, over its mirrors by ``schema.table``."""

    def __init__(self, view: MaintainedView, mirrors: Mapping[str, Mirror]) -> None:
        self._view, self._mirrors = view, mirrors
        self._queries, self._recomputation = key_queries(view), recomputation(view)

    def touched(
        self, session: SparkSession, changes: Mapping[str, Changed], settled: int
    ) -> pa.Table:
        """The keys of the view whose rows may be others now; each once, none with a NULL."""
        with relations_of(session) as relations:
            texts = [
                self._keys_in(state, query, changed, relations)
                for query in self._queries
                for state in (settled, None)
                if (changed := _images(query, changes[query.table], state)) is not None
            ]
            if not texts:
                return self._no_keys()
            return session.sql("\nUNION\n".join(texts)).toArrow()

    def _no_keys(self) -> pa.Table:
        return pa.table({name: pa.nulls(0) for name in self._view.key})

    def _keys_in(
        self, state: int | None, query: KeyQuery, changed: pa.Table, relations: Relations
    ) -> str:
        mirror = self._mirrors[query.table]
        names = self._read(query.reads, query.narrowing, {CHANGED: changed}, state, relations)
        return query.sql(names, relations.held(changed, mirror.columns))

    def rows(self, session: SparkSession, keys: pa.Table, relations: Relations) -> DataFrame:
        """The view's rows of some keys, as the mirrors have them now."""
        steps = self._recomputation.narrowing
        names = self._read(tuple(self._view.tables), steps, {KEYS: keys}, None, relations)
        return session.sql(self._recomputation.sql(names, relations.held(keys, None)))

    def everything(self, relations: Relations) -> str:
        """SQL of the whole view."""
        return whole(self._view, self._read(tuple(self._view.tables), (), {}, None, relations))

    def _read(
        self,
        reads: Sequence[str],
        steps: Sequence[Narrowing],
        at_hand: Mapping[str, pa.Table],
        state: int | None,
        relations: Relations,
    ) -> dict[str, str]:
        """What to read for each occurrence: no more rows of its mirror than can matter."""
        tables, found = self._view.tables, dict(at_hand)
        names = {}
        for step in steps:
            if step.alias not in reads or step.by not in found:
                continue
            mirror = self._mirrors[tables[step.alias].name]
            rows = mirror.rows(_wanted(step, found[step.by]), state)
            found[step.alias] = rows
            names[step.alias] = relations.held(rows, mirror.columns)
        for alias in reads:
            if alias not in names:
                names[alias] = relations.named(self._mirrors[tables[alias].name].frame(state))
        return names


def _images(query: KeyQuery, changed: Changed, state: int | None) -> pa.Table | None:
    """The images of changed rows that a query is about; None if there is none."""
    if query.beside:
        images = pa.concat_tables([changed.before, changed.after])
    else:
        images = changed.after if state is None else changed.before
    return images if len(images) else None


def _wanted(step: Narrowing, by: pa.Table) -> pa.Table:
    """The distinct values by which a mirror is narrowed, under its names for them. Their type may
    be another one, with values that the mirror's cannot hold."""
    values = pa.table({name: by.column(other) for name, other in step.pairs}).drop_null()
    return values.group_by(values.column_names).aggregate([])


class Relations:
    """Temporary views of a session, by names of their own."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.names: list[str] = []

    def named(self, frame: DataFrame) -> str:
        """Give rows a name."""
        name = f"headwater_{next(_VIEWS)}"
        frame.createOrReplaceTempView(name)
        self.names.append(name)
        return name

    def held(self, rows: pa.Table, columns: StructType | None) -> str:
        """Give rows at hand a name."""
        if not len(rows) and columns is not None:
            return self.named(self._session.createDataFrame([], columns))
        return self.named(self._session.createDataFrame(rows, columns))


@contextmanager
def relations_of(session: SparkSession) -> Iterator[Relations]:
    relations = Relations(session)
    try:
        yield relations
    finally:
        for name in relations.names:
            session.catalog.dropTempView(name)


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
        joined = wanted.join(rows.alias("r"), reduce(lambda one, two: one & two, same), "left")
        shown = [
            F.col(f"{'k' if field.name in names else 'r'}.{quoted(field.name)}")
            .cast(field.dataType)
            .alias(field.name)
            for field in columns
        ]
        controls = _controls(position, committed_us)
        held = joined.select(*shown, F.col(f"r.{_THERE}").isNull().alias(DELETED), *controls)
        held = held.persist()
        try:
            yield held
        finally:
            held.unpersist()


def _controls(position: Position, committed_us: int | None) -> list[Any]:
    at = (
        F.lit(None).cast("timestamp")
        if committed_us is None
        else F.timestamp_micros(F.lit(committed_us))
    )
    return [
        F.lit(position.commit_lsn).cast("bigint").alias(COMMIT_LSN),
        F.lit(position.ordinal).cast("bigint").alias(ORDINAL),
        F.expr("cast(array() as array<string>)").alias(UNCHANGED),
        at.alias(COMMITTED_AT),
    ]
