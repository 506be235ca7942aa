"""One mirror: what a table held before any attempt, and what it holds now."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from cdc.lsn import Position
from jobs.faults import fault
from jobs.mirrors import sql
from jobs.mirrors.sql import ATTEMPT
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL
from jobs.sinks.schema import quoted

_VERSION = (
    StructField(DELETED, BooleanType()),
    StructField(COMMIT_LSN, LongType()),
    StructField(ORDINAL, LongType()),
)
_LITERALS = 300
"""So many values are written into a query; more are a relation of their own."""
_FEW = 20_000
"""Versions that a mirror may hold beyond its rows before it is written anew."""


class Mirror:
    """The needed columns of one table, by its key. ``columns`` begin with the key."""

    def __init__(
        self, spark: SparkSession, path: Path, columns: StructType, key: Sequence[str]
    ) -> None:
        self._spark, self._path = spark, path
        self.columns, self.key = columns, tuple(key)
        self._whole = StructType([*columns, *_VERSION])
        self.arrow = to_arrow_schema(self._whole, timezone="UTC")
        self._names = [stored(name) for name in self.arrow.names]
        self._key = [stored(name) for name in self.key]
        self._rows = self._versions = -1

    @property
    def version_columns(self) -> StructType:
        """What ``find`` and ``frame`` give."""
        return self._whole

    def prepare(self) -> bool:
        """Create it, or add the columns it lacks; true if it was created."""
        wanted = self._stored_schema().append(pa.field(ATTEMPT, pa.int64()))
        try:
            table = DeltaTable(self._path)
        except TableNotFoundError:
            self._path.mkdir(parents=True, exist_ok=True)
            write_deltalake(self._path, wanted.empty_table(), mode="ignore")
            return True
        held = pa.schema(table.schema().to_arrow())
        if any(name not in held.names for name in wanted.names):
            write_deltalake(self._path, wanted.empty_table(), mode="append", schema_mode="merge")
        if any(one.name in held.names and held.field(one.name).type != one.type for one in wanted):
            self._widen()
        return False

    def _widen(self) -> None:
        """Give columns the types they have now, all versions kept. ``jobs.mirrors.tables`` has seen
        that each value stays what it is."""
        held = self._spark.read.format("delta").load(str(self._path))
        columns = [
            F.col(quoted(stored(field.name))).cast(field.dataType).alias(stored(field.name))
            for field in self._whole
        ]
        wide = held.select(*columns, ATTEMPT).write.format("delta").mode("overwrite")
        wide.option("overwriteSchema", "true").save(str(self._path))

    def append(self, versions: pa.Table, attempt: int) -> None:
        """Write new versions of rows; they count from here on."""
        number = pa.array([attempt] * len(versions), pa.int64())
        rows = versions.select(self.arrow.names).cast(self.arrow).rename_columns(self._names)
        write_deltalake(
            self._path,
            rows.append_column(ATTEMPT, number),
            mode="append",
            commit_properties=CommitProperties(max_commit_retries=3),
        )

    def find(self, wanted: pa.Table, upto: int | None = None) -> pa.Table:
        """The newest versions of rows whose columns are one of the rows of ``wanted`` (distinct,
        not NULL), deletions too; a few others may be among them."""
        if not len(wanted):
            return self.arrow.empty_table()
        of_key = set(wanted.column_names) <= set(self.key)
        wanted = wanted.rename_columns([stored(name) for name in wanted.column_names])
        builder = QueryBuilder().register("m", DeltaTable(self._path))
        with tempfile.TemporaryDirectory(prefix="headwater-wanted-") as scratch:
            condition = _condition(wanted) if len(wanted) <= _LITERALS else None
            if condition is None:
                write_deltalake(scratch, wanted)
                builder = builder.register("w", DeltaTable(scratch))
                condition = sql.is_in(wanted.column_names)
            return self._asked(builder, self._versions_sql(upto, condition, of_key))

    def rows(self, wanted: pa.Table, upto: int | None = None) -> pa.Table:
        """As ``find``, the rows themselves: without deletions, and what tells versions apart."""
        found = self.find(wanted, upto)
        return found.filter(pc.invert(found.column(DELETED))).select(self.columns.names)

    def all(self) -> pa.Table:
        """The newest versions of all rows, deletions too."""
        builder = QueryBuilder().register("m", DeltaTable(self._path))
        return self._asked(builder, self._versions_sql(None, "true", of_key=True))

    def unsettled(self, settled: int) -> pa.Table:
        """The keys that attempts after ``settled`` wrote."""
        builder = QueryBuilder().register("m", DeltaTable(self._path))
        found = pa.table(builder.execute(sql.unsettled(self._key, settled)).read_all())
        schema = pa.schema([self.arrow.field(name) for name in self.key])
        return found.rename_columns(schema.names).cast(schema)

    def frame(self, upto: int | None = None) -> DataFrame:
        """All rows, read by Spark: the newest version of each, without deletions."""
        return self._newest(upto).where(~F.col(DELETED))

    def _newest(self, upto: int | None) -> DataFrame:
        held = self._spark.read.format("delta").load(str(self._path))
        if upto is not None:
            held = held.where(F.col(ATTEMPT) <= upto)
        columns = [F.col(quoted(stored(name))).alias(name) for name in self.arrow.names]
        position = F.struct(COMMIT_LSN, ORDINAL, ATTEMPT)
        newest = F.max_by(F.struct(*columns), position).alias("newest")
        keys = [F.col(quoted(name)) for name in self._key]
        return held.groupBy(*keys).agg(newest).select("newest.*")

    @property
    def littered(self) -> bool:
        """Whether much of it is deletions, and versions that newer ones replaced."""
        versions = DeltaTable(self._path).count()
        if self._rows < 0:
            self._rows = self.frame().count()
        return versions - self._rows > max(_FEW, self._rows // 5)

    def newest_deletion(self) -> Position | None:
        """The highest position of a deletion it holds."""
        builder = QueryBuilder().register("m", DeltaTable(self._path))
        found = pa.table(builder.execute(sql.newest_deletion()).read_all()).to_pylist()
        return Position(*found[0].values()) if found else None

    def rewrite(self) -> None:
        """One version of each row, in the order of the key, and no deletions. Only between attempts
        that are settled."""
        self._write(self.frame(), "overwrite")

    def fill(self, rows: DataFrame) -> None:
        """The rows of an empty mirror, each once, as for a store."""
        self._write(rows.select(*(self._told_apart(field) for field in self._whole)), "append")

    def _told_apart(self, field: StructField) -> Column:
        column = F.col(quoted(field.name))
        if field.name not in self.key:
            return column
        message, hint = "the key of a row is null", "choose columns in source.keys that are not"
        null = fault("ViewError", message, F.lit(f"the snapshot of {self._path.name}"), hint)
        return F.coalesce(column, null.cast(field.dataType)).alias(field.name)

    def _write(self, rows: DataFrame, mode: str) -> None:
        keys = [F.col(quoted(name)) for name in self._key]
        versions = rows.toDF(*self._names).withColumn(ATTEMPT, F.lit(0).cast("bigint"))
        ordered = versions.repartitionByRange(*keys).sortWithinPartitions(*keys)
        ordered.write.format("delta").mode(mode).save(str(self._path))
        self._rows = DeltaTable(self._path).count()

    def _asked(self, builder: QueryBuilder, text: str) -> pa.Table:
        found = pa.table(builder.execute(text).read_all())
        return found.rename_columns(self.arrow.names).cast(self.arrow)

    def _versions_sql(self, upto: int | None, wanted: str, of_key: bool) -> str:
        return sql.versions(self._names, self._key, upto, wanted, of_key)

    def _stored_schema(self) -> pa.Schema:
        return pa.schema([pa.field(stored(f.name), f.type) for f in self.arrow])


def stored(name: str) -> str:
    """What a column is called in the table: Delta takes none of a few characters."""
    return re.sub(r"[ ,;{}()\n\t=%]", lambda one: f"%{ord(one[0]):02x}", name)


def _condition(wanted: pa.Table) -> str | None:
    """Of a few values, column by column: what agrees in each may be more than is wanted."""
    parts = [sql.is_one_of(name, _distinct(wanted, name)) for name in wanted.column_names]
    if any(part is None for part in parts):
        return None
    return " AND ".join(filter(None, parts))


def _distinct(table: pa.Table, name: str) -> list[Any]:
    return list(dict.fromkeys(table.column(name).to_pylist()))
