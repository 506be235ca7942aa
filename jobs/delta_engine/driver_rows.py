"""Rows of a small batch that are brought to the driver, to be read there without a Spark job.

Spark evaluates what is asked of rows in a plan while it plans, up to joins and groups. For some
hundred rows that is several times quicker than to cache them and run a job for each reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from jobs.without_mirrors.batch_counts import SAMPLE
from jobs.without_mirrors.fold import EVENT

MOST_BYTES = 32 << 20
"""A plan holds its rows several times over."""
_TOO_LARGE = "spark.driver.maxResultSize"
"""Stands in what Spark says of a result that it does not bring to the driver."""


def brought(rows: DataFrame) -> pa.Table | None:
    """``rows`` evaluated; None where they are too large to be held by a plan."""
    try:
        table = rows.toArrow()
    except Exception as error:
        if _TOO_LARGE in str(error):
            return None
        raise
    return table if table.nbytes <= MOST_BYTES else None


def at_hand(session: SparkSession, rows: pa.Table, columns: StructType) -> DataFrame:
    """Rows that are here, to be read as often as one likes."""
    held = session.createDataFrame(rows if len(rows) else [], columns)
    held.is_cached = True  # so nobody else needs to
    return held


def commits_us(rows: pa.Table) -> list[int]:
    """When the oldest streamed change of each row was committed, in order."""
    return sorted(at for at in of_event(rows, "oldest_us").to_pylist() if at is not None)


def of_event(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A field of the rows' events."""
    return pc.struct_field(rows.column(EVENT), name)


def spread(ordered: Sequence[int]) -> tuple[int, ...]:
    """At most ``SAMPLE`` values, spread as ``account`` does it."""
    if len(ordered) <= SAMPLE:
        return tuple(ordered)
    last = len(ordered) - 1
    return tuple(ordered[rank * last // (SAMPLE - 1)] for rank in range(SAMPLE))


def is_flat(columns: StructType) -> bool:
    """Whether rows can be brought at all: of a struct that is null, Arrow misses the fields that
    are not."""
    return not any(_has_struct(field.dataType) for field in columns)


def _has_struct(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_struct(kind.elementType)
    return isinstance(kind, StructType | MapType)
