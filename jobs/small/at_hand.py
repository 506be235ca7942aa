"""Rows of a small batch that are brought to the driver, to be read there without a Spark job.

Spark evaluates what is asked of rows in a plan while it plans, up to joins and groups. For some
hundred rows that is several times quicker than to cache them and run a job for each reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from cdc.lsn import Position
from jobs.account import SAMPLE, Account
from jobs.fold import EVENT, SNAPSHOT, TRUNCATE
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL

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


class FewDocuments(NamedTuple):
    """Finished documents of a batch without gaps and TRUNCATE, behind ``BESIDE``."""

    table: pa.Table


BESIDE = (DELETED, COMMIT_LSN, ORDINAL, EVENT)
"""What tells a batch's rows apart, and what they amount to."""


def news(held: FewDocuments, truncated: Position, whole: Position, empty: bool) -> pa.Table:
    """The documents that a store is given of a batch, by the rule for rows
    (``jobs.applying.news_of``)."""
    table = held.table
    deleted, lsn = table.column(DELETED), table.column(COMMIT_LSN)
    wanted = _from(table, lsn, truncated)
    if empty:
        outside = pc.and_(deleted, pc.equal(of_event(table, "op"), SNAPSHOT))
        wanted = pc.and_(wanted, pc.invert(outside))
    if whole > truncated:
        wanted = pc.and_(wanted, pc.or_(deleted, _from(table, lsn, whole)))
    return table.filter(wanted).drop_columns(list(BESIDE))


def _from(table: pa.Table, lsn: pa.ChunkedArray, position: Position) -> pa.ChunkedArray:
    """Which rows stand at a position or behind it."""
    later = pc.greater_equal(table.column(ORDINAL), position.ordinal)
    same = pc.and_(pc.equal(lsn, position.commit_lsn), later)
    return pc.or_(pc.greater(lsn, position.commit_lsn), same)


def account_at_hand(rows: pa.Table) -> Account:
    """What ``account`` says of rows that Spark holds, of rows that are here."""
    op, deleted = of_event(rows, "op"), rows.column(DELETED)
    keyed, read = pc.not_equal(op, TRUNCATE), pc.equal(op, SNAPSHOT)
    gone = pc.and_(pc.and_(keyed, deleted), pc.invert(read))
    return Account(
        pc.sum(of_event(rows, "records")).as_py() or 0,
        pc.sum(keyed).as_py() or 0,
        pc.sum(pc.and_(keyed, pc.invert(deleted))).as_py() or 0,
        pc.sum(of_event(rows, "gap")).as_py() or 0,
        max(_positions(rows, pc.invert(keyed)), default=None),
        spread(commits_us(rows.filter(keyed))),
        min(_positions(rows, read), default=None),
        max(_positions(rows, gone), default=None),
    )


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


def _positions(rows: pa.Table, wanted: pa.ChunkedArray) -> list[Position]:
    found = rows.select([COMMIT_LSN, ORDINAL]).filter(wanted)
    return [Position(*at) for at in zip(*(one.to_pylist() for one in found.columns), strict=True)]


def is_flat(columns: StructType) -> bool:
    """Whether rows can be brought at all: of a struct that is null, Arrow misses the fields that
    are not."""
    return not any(_has_struct(field.dataType) for field in columns)


def _has_struct(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_struct(kind.elementType)
    return isinstance(kind, StructType | MapType)
