"""What the records of a batch amount to, for each table of a view over mirrors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.kafka.broker import Offsets
from jobs.delta_engine.batch_records import with_records
from jobs.delta_engine.late_snapshot_rows import without_returned
from jobs.delta_engine.mirrors.attempts import read_attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.mirrors.mirror_views import deletions, folded, nothing
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import COMMIT_LSN, DELETED
from jobs.without_mirrors.dead_letters.parking import Parking
from jobs.without_mirrors.earlier_changes import EarlierChanges
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.snapshot_rows import RECORD


class Folding:
    """Folds for ``mirrors``, by ``models`` of their tables; ``topics`` are the tables', and so are
    the changes that came ``earlier``."""

    def __init__(
        self,
        spark: SparkSession,
        state: ViewState,
        topics: Mapping[str, str],
        models: Mapping[str, Model],
        mirrors: Mapping[str, Mirror],
        parking: Parking,
        earlier: Mapping[str, EarlierChanges],
    ) -> None:
        self._spark, self._state, self._topics = spark, state, topics
        self._models, self._mirrors = models, mirrors
        self._parking, self._earlier = parking, earlier
        self._empty: dict[str, pa.Table] = {}

    def batch(self, records: DataFrame, begin: Offsets, end: Offsets) -> dict[str, pa.Table]:
        """What each table's records amount to."""
        came = with_records(begin, end)
        return {
            name: self._news(name, folded(self._models[name], self.of(name, records)), begin)
            if self._topics[name] in came
            else self.nothing(name)
            for name in self._models
        }

    def nothing(self, name: str) -> pa.Table:
        """What no records of a table amount to."""
        if name not in self._empty:
            none = self._spark.createDataFrame([], RECORD)
            self._empty[name] = nothing(self._models[name], none)
        return self._empty[name]

    def of(self, table: str, records: DataFrame) -> DataFrame:
        """Those of a table."""
        return records.where(F.col("topic") == self._topics[table])

    def _news(self, table: str, rows: pa.Table, begin: Offsets) -> pa.Table:
        """Without what the snapshot has that filled the mirrors, and what was deleted before."""
        beginning = self._state.beginning()
        if beginning is not None:
            lsn = rows.column(COMMIT_LSN)
            begun = pc.greater_equal(lsn, beginning.lsn)
            later = pc.or_(rows.column(DELETED), pc.greater_equal(lsn, beginning.upto))
            rows = rows.filter(pc.and_(begun, later))
        forgotten = read_attempts(self._state.mirrors).forgotten.get(table)
        deleted = partial(self._deleted, table, begin)
        return without_returned(rows, self._mirrors[table], forgotten, deleted)

    def _deleted(self, table: str, begin: Offsets, keys: pa.Table) -> pa.Table:
        """Of some rows, those that the records before a batch delete in the end."""
        before = self._earlier[table].before(begin.get(self._topics[table], {}))
        records = self._parking.history(before)
        return deletions(self._models[table], records, self._spark.createDataFrame(keys))
