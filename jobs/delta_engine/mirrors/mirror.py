"""One mirror: what a table held before any attempt, and what it holds now."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from cdc.lsn import Position
from jobs.delta_engine.mirrors import sql
from jobs.delta_engine.mirrors.parquet_files import GROUP_ROWS
from jobs.delta_engine.mirrors.spark_versions import held_versions, newest, told_apart, widen
from jobs.delta_engine.mirrors.sql import ATTEMPT
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL
from jobs.sinks.schema_evolution import quoted

_VERSION = (
    StructField(DELETED, BooleanType()),
    StructField(COMMIT_LSN, LongType()),
    StructField(ORDINAL, LongType()),
)
_FEW = 20_000
"""Versions that a mirror may hold beyond its rows before it is written anew."""
SMALL_FILES = 32
"""So many may be there before they are joined; each batch writes one."""
_JOINED_BYTES = 4 << 20
"""A file of so much is not joined with others again: that would take longer each time."""
_KEPT: Final = dict.fromkeys(
    ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"), "interval 1 hours"
)
"""Nobody reads an older version: a batch reads the newest one, and ends long before."""


class Mirror:
    """The needed columns of one table, by its key. ``columns`` begin with the key."""

    def __init__(
        self, spark: SparkSession, path: Path, columns: StructType, key: Sequence[str]
    ) -> None:
        self._spark, self._path = spark, path
        self.columns, self.key = columns, tuple(key)
        self._whole = StructType([*columns, *_VERSION])
        self.arrow = to_arrow_schema(self._whole, timezone="UTC")
        self._names = [sql.stored(name) for name in self.arrow.names]
        self._key = [sql.stored(name) for name in self.key]
        self._rows = -1
        self._once = -1
        """So many versions are known to be of as many rows."""
        self._opened: DeltaTable | None = None

    def _table(self) -> DeltaTable:
        """As it is now. To read on in its log is a tenth of opening it.

        Raises ``TableNotFoundError``, also where it was removed meanwhile.
        """
        if not (self._path / "_delta_log").is_dir():
            self._opened = None
        if self._opened is None:
            self._opened = DeltaTable(self._path)
        else:
            self._opened.update_incremental()
        return self._opened

    @property
    def version_columns(self) -> StructType:
        """What ``find`` and ``frame`` give."""
        return self._whole

    def prepare(self) -> bool:
        """Create it, or add the columns it lacks; true if it was created."""
        wanted = self._stored_schema().append(pa.field(ATTEMPT, pa.int64()))
        try:
            table = self._table()
        except TableNotFoundError:
            self._path.mkdir(parents=True, exist_ok=True)
            kept = dict[str, str | None](_KEPT)
            write_deltalake(self._path, wanted.empty_table(), mode="ignore", configuration=kept)
            self._rows = self._once = 0
            return True
        if not _KEPT.items() <= table.metadata().configuration.items():
            table.alter.set_table_properties(_KEPT)
        held = pa.schema(table.schema().to_arrow())
        if any(name not in held.names for name in wanted.names):
            write_deltalake(self._path, wanted.empty_table(), mode="append", schema_mode="merge")
        if any(one.name in held.names and held.field(one.name).type != one.type for one in wanted):
            widen(self._spark, self._path, self._whole)
        return False

    def append(self, versions: pa.Table, attempt: int) -> None:
        """Write new versions of rows; they count from here on."""
        number = pa.repeat(pa.scalar(attempt, pa.int64()), len(versions))
        rows = versions.select(self.arrow.names).cast(self.arrow).rename_columns(self._names)
        write_deltalake(
            self._table(),
            rows.append_column(ATTEMPT, number),
            mode="append",
            writer_properties=WriterProperties(max_row_group_size=GROUP_ROWS),
            commit_properties=CommitProperties(max_commit_retries=3),
        )

    def append_new(self, versions: pa.Table, attempt: int) -> None:
        """As ``append``, of rows that it has no version of, each once."""
        known = self._once >= 0 and self._once == self.versions
        self.append(versions, attempt)
        if known:
            self._once += len(versions)

    @property
    def versions(self) -> int:
        """How many it holds, by what the log says of its files."""
        return self._versions(self._table())

    def _versions(self, table: DeltaTable) -> int:
        held = table.get_add_actions().column("num_records").to_pylist()
        if None in held:  # files without statistics, as somebody may have set for Spark
            return self._counted(sql.count())
        return sum(held)

    def grown(self, rows: int) -> None:
        """So many rows came, less those that went."""
        if self._rows >= 0:
            self._rows += rows

    def take_back(self, settled: int) -> None:
        """Without what attempts after ``settled`` wrote."""
        self._rows = self._once = -1
        self._table().delete(f"{sql.quoted(ATTEMPT)} > {settled}")
        if not self.versions:  # as when it was made
            self._rows = self._once = 0

    def find(self, wanted: pa.Table, upto: int | None = None) -> pa.Table:
        """The newest versions of rows whose key is one of ``wanted`` (distinct), deletions too. No
        key is NULL."""
        if not len(wanted):
            return self.arrow.empty_table()
        table = self._table()
        if not self._versions(table):
            return self.arrow.empty_table()
        wanted = wanted.rename_columns([sql.stored(name) for name in wanted.column_names])
        with tempfile.TemporaryDirectory(prefix="headwater-wanted-") as scratch:
            write_deltalake(scratch, wanted)
            builder = QueryBuilder().register("m", table).register("w", DeltaTable(scratch))
            return self._asked(builder, self._versions_sql(upto, sql.is_in(wanted.column_names)))

    def rows(self, wanted: pa.Table, upto: int | None = None) -> pa.Table:
        """As ``find``, the rows themselves: without deletions, and what tells versions apart."""
        return self.live(self.find(wanted, upto))

    def live(self, versions: pa.Table) -> pa.Table:
        """The rows that versions are, without deletions."""
        found = versions.filter(pc.invert(versions.column(DELETED))).select(self.columns.names)
        return found.cast(pa.schema([self.arrow.field(name) for name in found.column_names]))

    def all(self) -> pa.Table:
        """The newest versions of all rows, deletions too."""
        builder = QueryBuilder().register("m", self._table())
        return self._asked(builder, self._versions_sql(None, "true"))

    def unsettled(self, settled: int) -> pa.Table:
        """The keys that attempts after ``settled`` wrote."""
        builder = QueryBuilder().register("m", self._table())
        found = pa.table(builder.execute(sql.unsettled(self._key, settled)).read_all())
        schema = pa.schema([self.arrow.field(name) for name in self.key])
        return found.rename_columns(schema.names).cast(schema)

    def frame(self, upto: int | None = None) -> DataFrame:
        """All rows, read by Spark: the newest version of each, without deletions."""
        held = held_versions(self._spark, self._path, self._table(), self._whole)
        if upto is not None:
            held = held.where(F.col(ATTEMPT) <= upto)
        columns = [F.col(quoted(sql.stored(name))).alias(name) for name in self.arrow.names]
        once = self._once >= 0 and self._once == self.versions  # there is nothing to choose from
        rows = held.select(*columns) if once else newest(held, self._key, columns)
        return rows.where(~F.col(DELETED))

    @property
    def littered(self) -> bool:
        """Whether much of it is deletions, and versions that newer ones replaced."""
        versions = self.versions
        if versions <= _FEW:
            return False
        if self._rows < 0:
            self._rows = self._counted(sql.live(self._versions_sql(None, "true")))
        return versions - self._rows > max(_FEW, self._rows // 5)

    def newest_deletion(self) -> Position | None:
        """The highest position of a deletion it holds."""
        builder = QueryBuilder().register("m", self._table())
        found = pa.table(builder.execute(sql.newest_deletion()).read_all()).to_pylist()
        return Position(*found[0].values()) if found else None

    def rewrite(self) -> None:
        """One version of each row, in the order of the key, and no deletions. Only between attempts
        that are settled."""
        self._write(self.frame(), "overwrite")

    def compact(self) -> int:
        """Join small files, if there are many; how many are fewer."""
        table = self._table()
        sizes = pa.table(table.get_add_actions()).column("size_bytes")
        if (pc.sum(pc.less(sizes, _JOINED_BYTES)).as_py() or 0) < SMALL_FILES:
            return 0
        done = table.optimize.compact(target_size=_JOINED_BYTES, max_concurrent_tasks=1)
        return int(done["numFilesRemoved"]) - int(done["numFilesAdded"])

    def vacuum(self) -> None:
        """Delete files that no version of the last hour has."""
        self._table().vacuum(dry_run=False, full=True)

    def fill(self, rows: DataFrame) -> None:
        """The rows of an empty mirror, each once, as for a store."""
        self._write(told_apart(rows, self._whole, self.key, self._path.name), "append")

    def _write(self, rows: DataFrame, mode: str) -> None:
        keys = [F.col(quoted(name)) for name in self._key]
        versions = rows.toDF(*self._names).withColumn(ATTEMPT, F.lit(0).cast("bigint"))
        ordered = versions.repartitionByRange(*keys).sortWithinPartitions(*keys)
        ordered.write.format("delta").mode(mode).save(str(self._path))
        self._rows = self._once = self.versions

    def _asked(self, builder: QueryBuilder, text: str) -> pa.Table:
        found = pa.table(builder.execute(text).read_all())
        return found.rename_columns(self.arrow.names).cast(self.arrow)

    def _counted(self, text: str) -> int:
        builder = QueryBuilder().register("m", self._table())
        return int(pa.table(builder.execute(text).read_all()).column(0)[0].as_py())

    def _versions_sql(self, upto: int | None, wanted: str) -> str:
        return sql.versions(self._names, self._key, upto, wanted)

    def _stored_schema(self) -> pa.Schema:
        return pa.schema([pa.field(sql.stored(f.name), f.type) for f in self.arrow])
