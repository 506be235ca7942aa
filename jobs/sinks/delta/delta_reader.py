"""Delta tables read by delta-rs, in the driver's own process: no Spark job, milliseconds.

Of tables on this machine's file systems and in S3: of others Spark alone knows how to reach them.
And of tables whose features it knows: the others are Spark's as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
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
from jobs.sinks.delta.bucket import fault_of_s3
from jobs.sinks.delta.held_tables import HeldTables
from jobs.spark.object_store import is_in_s3, place_options

_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz"}
)
"""Which mean the same to both."""
_KEYS: Final[tuple[type[DataType], ...]] = (
    *(ShortType, IntegerType, LongType, DecimalType, BooleanType, StringType),
    *(DateType, TimestampType, TimestampNTZType),
)
"""Equal to both alike; of NaN they think differently."""
_TEMPORARY: Final = "software.amazon.awssdk.auth.credentials.AwsSessionCredentials"
_HELD: Final = HeldTables()
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


def table_at(path: str) -> DeltaTable:
    """The newest version of a table on this machine or in S3; of one on this machine the thread has
    but one, as long as only it writes it. One in S3 is opened each time: temporary credentials go
    with the table. Raises what delta-rs raises, and ``SinkError`` where there are no credentials,
    ``RetryableError`` where nobody answers who gives them."""
    if is_in_s3(path):
        return DeltaTable(path, storage_options=_options(path))
    return _HELD.newest(path, folder_of(path))


def _options(path: str) -> dict[str, str]:
    try:
        return _of_hadoop(path)
    except Py4JJavaError as error:
        raise fault_of_s3(f"Delta table {path}", error) or error from error


def _of_hadoop(path: str) -> dict[str, str]:
    """The place and the credentials that this process's Spark has for a path in S3. Temporary ones
    last some minutes at least."""
    context: Any = SparkContext._active_spark_context
    place = context._jvm.org.apache.hadoop.fs.Path(path)
    files = place.getFileSystem(context._jsc.hadoopConfiguration())
    shared = files.getS3AInternals().shareCredentials("delta-rs")
    try:
        keys = shared.resolveCredentials()
    finally:
        shared.close()
    found = {
        "AWS_ACCESS_KEY_ID": str(keys.accessKeyId()),
        "AWS_SECRET_ACCESS_KEY": str(keys.secretAccessKey()),
    }
    if is_instance_of(context._gateway, keys, _TEMPORARY):
        found["AWS_SESSION_TOKEN"] = str(keys.sessionToken())
    settings = files.getConf()
    return {**found, **place_options(lambda name: settings.get(f"fs.s3a.{name}"))}


def folder_of(path: str) -> Path:
    """Where a table on this machine is."""
    return Path(unquote(urlsplit(path).path)) if path.startswith("file:/") else Path(path)


def opened(path: str) -> DeltaTable | None:
    """The table, None if it is not here, or is one of those that are left to Spark.

    Raises ``RetryableError`` for S3 that does not answer, ``SinkError`` if it refuses."""
    if not (is_local(path) or is_in_s3(path)):
        return None
    try:
        table = table_at(path)
        protocol, metadata = table.protocol(), table.metadata()
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        if is_in_s3(path) and (found := fault_of_s3(f"Delta table {path}", error)):
            raise found from error
        return None  # Spark says what it is
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
