"""The queries that keep a view over mirrors, run by Spark over as few rows as can matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.mirrors.changes import Changed
from jobs.mirrors.mirror import Mirror
from views.maintained import MaintainedView
from views.maintenance import CHANGED, KeyQuery, key_queries, recomputation, whole
from views.narrowing import Narrowing
from views.selecting import KEYS

_VIEWS = count()


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
