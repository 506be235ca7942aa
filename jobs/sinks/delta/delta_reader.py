"""Delta tables read by delta-rs, in the driver's own process: no Spark job, milliseconds.

Of tables on this machine's file systems alone: of others Spark knows how to reach them. And of
tables whose features it knows: the others are Spark's as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyspark import SparkContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.errors import SinkError
from jobs.sinks.arrow import python_values

_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz"}
)
"""Which mean the same to both."""
_KEYS: Final[tuple[type[DataType], ...]] = (
    *(ShortType, IntegerType, LongType, DecimalType, BooleanType, StringType),
    *(DateType, TimestampType, TimestampNTZType),
)
"""Equal to both alike; of NaN they think differently."""
_LISTED: Final = 7
"""Tables for writers of older versions have none of the others, or say so by a property."""


def is_local(path: str) -> bool:
    """Whether it is one of this machine's own files, to Spark as well: a path without a scheme may
    be in another file system."""
    if ":" in path:
        return path.startswith("file:/")
    context = SparkContext._active_spark_context
    return context is None or _default_scheme(context) == "file"


@lru_cache(maxsize=4)
def _default_scheme(context: SparkContext) -> str:
    """Of the file system that paths without one are in (``fs.defaultFS``)."""
    jsc: Any = context._jsc
    return urlsplit(str(jsc.hadoopConfiguration().get("fs.defaultFS"))).scheme


def is_absent(path: str) -> bool:
    """Whether it is known that there is no table."""
    return is_local(path) and not (folder_of(path) / "_delta_log").exists()


def folder_of(path: str) -> Path:
    """Where a table on this machine is."""
    return Path(unquote(urlsplit(path).path)) if path.startswith("file:/") else Path(path)


def opened(path: str) -> DeltaTable | None:
    """The table, None if it is not here, or is one of those that are left to Spark."""
    if not is_local(path):
        return None
    try:
        table = DeltaTable(path)
        protocol, metadata = table.protocol(), table.metadata()
    except (DeltaError, OSError):  # Spark says what it is
        return None
    if metadata.partition_columns:  # whose values are texts in the log, in names of folders
        return None
    if protocol.min_writer_version < _LISTED:
        mapped = metadata.configuration.get("delta.columnMapping.mode", "none")
        return table if mapped == "none" else None
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return table if features <= _FEATURES else None


def writable(path: str, columns: StructType, key: Iterable[str]) -> DeltaTable | None:
    """The table, None if rows with such columns and key are not to be written by delta-rs."""
    if not is_plain(columns):
        return None
    if not all(isinstance(columns[name].dataType, _KEYS) for name in key):
        return None
    return opened(path)


def sizes_of(table: DeltaTable) -> list[int]:
    """How many bytes each of its files has."""
    return list(pa.table(table.get_add_actions()).column("size_bytes").to_pylist())


def bytes_of(table: DeltaTable) -> int:
    """How large its files are together."""
    return sum(sizes_of(table))


def is_plain(columns: StructType) -> bool:
    """Whether all names are words: what else is in a name is not the same to all."""
    return all(name.isidentifier() for name in columns.names)


def stream(
    table: DeltaTable, columns: StructType, where: str = "true"
) -> Iterator[dict[str, list[Any]]]:
    """Rows as lists by column name, batch by batch; ``where`` is a condition in DataFusion's SQL,
    with names in double quotes, and perhaps a QUALIFY behind it."""
    for rows in _read(table, to_arrow_schema(columns, timezone="UTC"), where):
        for part in rows.to_batches():
            yield {
                name: python_values(column)
                for name, column in zip(part.schema.names, part.columns, strict=True)
            }


def read(table: DeltaTable, schema: pa.Schema, where: str = "true") -> pa.Table:
    """Some columns of rows, those of ``where`` as ``stream`` has it."""
    return pa.concat_tables([schema.empty_table(), *_read(table, schema, where)])


def _read(table: DeltaTable, schema: pa.Schema, where: str) -> Iterator[pa.Table]:
    names = ", ".join(map(named, schema.names))
    query = f"select {names} from t where {where}"
    try:
        for batch in QueryBuilder().register("t", table).execute(query):
            yield pa.Table.from_batches([pa.record_batch(batch)]).cast(schema)
    except DeltaError as error:
        raise SinkError(f"Delta table {table.table_uri}: {first_line(error)}") from error


def named(name: str) -> str:
    """A column's name in DataFusion's SQL."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: Exception) -> str:
    """What goes into a message: a line, no more."""
    return (str(error).strip().splitlines() or [""])[0][:200]
