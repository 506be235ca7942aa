"""The queries that keep a view over mirrors, run by Spark over as few rows as can matter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs.batch.thresholds import FEW_ROWS
from jobs.delta_engine.mirrors.changes import Changed
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.mirrors.parquet_files import GROUP_ROWS, read_files
from jobs.delta_engine.touched_keys import distinct
from views.spark.plan import KeyQuery, key_queries, recomputation, whole
from views.spark.view import MaintainedView

_VIEWS = count()


class Maintenance:
    """The queries of a view, over its mirrors by ``schema.table``, which lie in ``directory``."""

    def __init__(
        self, view: MaintainedView, mirrors: Mapping[str, Mirror], directory: Path
    ) -> None:
        self._view, self._mirrors, self._directory = view, mirrors, directory
        self._queries = key_queries(view)

    def touched(
        self, session: SparkSession, changes: Mapping[str, Changed], settled: int
    ) -> pa.Table:
        """The keys of the view whose rows may be others now; each once, none with a NULL."""
        asked = [
            (state, query, changed)
            for query in self._queries
            for state in (settled, None)
            if (changed := _images(query, changes[query.table], state)) is not None
        ]
        found = [
            changed.select(names).rename_columns(self._view.key).drop_null()
            for _, query, changed in asked
            if (names := query.columns) is not None
        ]
        with self.relations(session) as relations:
            texts = [
                self._keys_in(state, query, changed, relations)
                for state, query, changed in asked
                if query.columns is None
            ]
            if texts:
                found.append(session.sql("\nUNION\n".join(texts)).toArrow())
        if not found:
            return self._no_keys()
        return distinct(found)

    def keys_at_hand(self) -> pa.Table | None:
        """The keys of all rows of the view, and perhaps others: of a table whose own columns they
        are, without a query, so whatever is in its rows. None if there is no such table."""
        for query in self._queries:
            if query.columns is not None:
                mirror = self._mirrors[query.table]
                held = mirror.live(mirror.all()).select(query.columns)
                return distinct([held.rename_columns(self._view.key).drop_null()])
        return None

    def relations(self, session: SparkSession) -> AbstractContextManager[Relations]:
        """Names for what is read. What is held for them is in the mirrors' directory."""
        return relations_of(session, self._directory)

    def _no_keys(self) -> pa.Table:
        return pa.table({name: pa.nulls(0) for name in self._view.key})

    def _keys_in(
        self, state: int | None, query: KeyQuery, changed: pa.Table, relations: Relations
    ) -> str:
        mirror = self._mirrors[query.table]
        names = self._read(query.reads, state, relations)
        return query.sql(names, relations.held(changed, mirror.columns))

    def rows(self, session: SparkSession, keys: pa.Table, relations: Relations) -> DataFrame:
        """The view's rows of some keys, as the mirrors have them now."""
        names = self._read(tuple(self._view.tables), None, relations)
        return session.sql(recomputation(self._view, names, relations.held(keys, None)))

    def everything(self, session: SparkSession, relations: Relations) -> DataFrame:
        """The whole view."""
        names = self._read(tuple(self._view.tables), None, relations)
        return session.sql(whole(self._view, names))

    def _read(
        self, reads: Sequence[str], state: int | None, relations: Relations
    ) -> dict[str, str]:
        """What to read for each occurrence."""
        names = {}
        for alias in reads:
            mirror = self._mirrors[self._view.tables[alias].name]
            names[alias] = relations.named(mirror.frame(state))
        return names


def _images(query: KeyQuery, changed: Changed, state: int | None) -> pa.Table | None:
    """The images of changed rows that a query is about; None if there is none."""
    if query.beside:
        images = pa.concat_tables([changed.before, changed.after])
    else:
        images = changed.after if state is None else changed.before
    return images if len(images) else None


class Relations:
    """Temporary views of a session, by names of their own."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self._session, self._directory = session, directory
        self._scratch: Path | None = None
        self.names: list[str] = []

    def named(self, frame: DataFrame) -> str:
        """Give rows a name."""
        name = f"headwater_{next(_VIEWS)}"
        frame.createOrReplaceTempView(name)
        self.names.append(name)
        return name

    def held(self, rows: pa.Table, columns: StructType | None) -> str:
        """Give rows at hand a name."""
        return self.named(self.frame(rows, columns))

    def frame(self, rows: pa.Table, columns: StructType | None) -> DataFrame:
        """Rows at hand, readable until the end of this. Many are not part of a plan, which Spark
        keeps on its heap, but a file that it reads."""
        if not len(rows) and columns is not None:
            return self._session.createDataFrame([], columns)
        if len(rows) <= FEW_ROWS:
            return self._session.createDataFrame(rows, columns)
        kinds = columns or from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        plain = StructType([StructField(f"c{i}", one.dataType) for i, one in enumerate(kinds)])
        self._scratch = self._scratch or Path(mkdtemp(prefix=_SCRATCH, dir=self._directory))
        path = self._scratch / f"{next(_VIEWS)}.parquet"
        pq.write_table(rows.rename_columns(plain.names), path, row_group_size=GROUP_ROWS)
        return read_files(self._session, [path], plain).toDF(*rows.column_names)

    def close(self) -> None:
        for name in self.names:
            self._session.catalog.dropTempView(name)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


@contextmanager
def relations_of(session: SparkSession, directory: Path) -> Iterator[Relations]:
    """``directory`` is for what is too large for a plan; executors read there."""
    relations = Relations(session, directory)
    try:
        yield relations
    finally:
        relations.close()


def forget_relations(directory: Path) -> None:
    """Remove what a killed process held in a directory."""
    for left in directory.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)


_SCRATCH = "held-"
