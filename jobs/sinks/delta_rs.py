"""Delta tables read by delta-rs, in the driver's own process: no Spark job, milliseconds.

Of tables on this machine's file systems alone: of others Spark knows how to reach them. And of
tables whose features it knows: the others are Spark's as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from cdc.errors import SinkError
from jobs.sinks.arrow import python_values

_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz"}
)
"""Which mean the same to both."""
_LISTED: Final = 7
"""Tables for writers of older versions have none of the others, or say so by a property."""


def opened(path: str) -> DeltaTable | None:
    """The table, None if it is not here, or is one of those that are left to Spark."""
    if ":" in path and not path.startswith("file:/"):
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


def is_plain(columns: StructType) -> bool:
    """Whether all names are words: what else is in a name is not the same to all."""
    return all(name.isidentifier() for name in columns.names)


def stream(table: DeltaTable, columns: StructType) -> Iterator[dict[str, list[Any]]]:
    """All rows as lists by column name, batch by batch."""
    for rows in _read(table, to_arrow_schema(columns, timezone="UTC")):
        for part in rows.to_batches():
            yield {
                name: python_values(column)
                for name, column in zip(part.schema.names, part.columns, strict=True)
            }


def read(table: DeltaTable, schema: pa.Schema) -> pa.Table:
    """Some columns of all rows."""
    return pa.concat_tables([schema.empty_table(), *_read(table, schema)])


def _read(table: DeltaTable, schema: pa.Schema) -> Iterator[pa.Table]:
    names = ", ".join(f'"{name}"' for name in schema.names)
    try:
        for batch in QueryBuilder().register("t", table).execute(f"select {names} from t"):
            yield pa.Table.from_batches([pa.record_batch(batch)]).cast(schema)
    except DeltaError as error:
        raise SinkError(f"Delta table {table.table_uri}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What goes into a message: a line, no more."""
    return (str(error).strip().splitlines() or [""])[0][:200]
