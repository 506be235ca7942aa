"""What rows were, change by change: a batch put in order with what a store holds. Pure.

The changes of a key are told apart by position and are in its order, whichever batch brings them:
each stands once, a later batch may bring an earlier one. A change that says "gone" counts only
behind one that says "there", so a row that never was in the view leaves no trace. TRUNCATE is such
a change of every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, OP, ORDINAL, UNCHANGED
from jobs.sinks.schema_evolution import quoted

LIVE: Final = "__live"
"""Whether the row is there from this change on."""
HELD: Final = "__held"
"""Whether the store has this change."""
WAS_LIVE: Final = "__was_live"
"""Whether the row was there before it."""
NEXT: Final = "__next"
"""Position and time of the change that follows, NULL at the last one."""
UNKNOWN: Final = "__unknown"
"""Whether a value is kept that neither the batch nor the store has."""

_AT = (COMMIT_LSN, ORDINAL, COMMITTED_AT)


def with_op(rows: DataFrame) -> DataFrame:
    """Rows of a batch with what was done to them; those of a repair are read, or gone."""
    if OP in rows.columns:
        return rows
    return rows.withColumn(OP, F.when(F.col(DELETED), DELETE).otherwise(SNAPSHOT))


def changes_of(rows: DataFrame, columns: StructType) -> DataFrame:
    """A batch's rows as ``in_order`` takes them, without TRUNCATE."""
    return rows.where(F.col(OP) != TRUNCATE).select(
        *_names(columns), *_AT, OP, UNCHANGED, (~F.col(DELETED)).alias(LIVE),
        F.lit(False).alias(HELD),
    )  # fmt: skip


def truncates_of(rows: DataFrame) -> DataFrame:
    """The TRUNCATEs of a batch, each once: it stands in every partition."""
    found = rows.where(F.col(OP) == TRUNCATE)
    return found.groupBy(COMMIT_LSN, ORDINAL).agg(F.max(COMMITTED_AT).alias(COMMITTED_AT))


def held_as(rows: DataFrame, columns: StructType, op: Column, live: Column) -> DataFrame:
    """What a store holds as ``in_order`` takes it."""
    return rows.select(
        *_names(columns), *_AT, op.alias(OP), _nothing().alias(UNCHANGED), live.alias(LIVE),
        F.lit(True).alias(HELD),
    )  # fmt: skip


def in_order(
    columns: StructType,
    key: Sequence[str],
    rows: DataFrame,
    truncates: DataFrame | None,
    partial: bool = True,
) -> DataFrame:
    """Changes of a batch and those that a store holds: each once, in order, with what is known
    from the others. ``truncates`` are given to each key; ``partial``: some values are unchanged."""
    keys = [F.col(quoted(name)) for name in key]
    if truncates is not None:
        others = [
            F.lit(None).cast(field.dataType).alias(field.name)
            for field in columns
            if field.name not in key
        ]
        of_all = rows.select(*keys).distinct().crossJoin(F.broadcast(truncates))
        gone = (F.lit(TRUNCATE).alias(OP), _nothing().alias(UNCHANGED), F.lit(False).alias(LIVE))
        rows = rows.unionByName(of_all.select("*", *others, *gone, F.lit(False).alias(HELD)))
    position = F.struct(COMMIT_LSN, ORDINAL)
    once = Window.partitionBy(*keys).orderBy(
        COMMIT_LSN, ORDINAL, F.col(HELD).desc(), F.col(LIVE).desc()
    )
    first = F.coalesce(F.lag(position).over(once) != position, F.lit(True))
    rows = rows.withColumn("__first", first).where("__first").drop("__first")
    ordered = Window.partitionBy(*keys).orderBy(COMMIT_LSN, ORDINAL)
    rows = (
        _filled(columns, key, rows, ordered) if partial else rows.withColumn(UNKNOWN, F.lit(False))
    )
    return rows.select(
        *_names(columns), *_AT, OP, LIVE, HELD,
        F.coalesce(F.lag(LIVE).over(ordered), F.lit(False)).alias(WAS_LIVE),
        F.lead(F.struct(*_AT)).over(ordered).alias(NEXT),
        UNKNOWN,
    )  # fmt: skip


def _filled(
    columns: StructType, key: Sequence[str], rows: DataFrame, ordered: WindowSpec
) -> DataFrame:
    """Changes with the values that they left unchanged.

    One that lacks a value which nobody has is left out where the row was read later as a whole: it
    is of the time before that, of which a history need not know.
    """
    known = _known(columns, key, ordered)
    later = ordered.rowsBetween(1, Window.unboundedFollowing)
    read_later = F.coalesce(F.max(F.col(ORDINAL) == 0).over(later), F.lit(False))
    rows = rows.select(
        *(known.get(field.name, F.col(quoted(field.name))).alias(field.name) for field in columns),
        *_AT, OP, LIVE, HELD,
        _unknown(columns, key, ordered).alias(UNKNOWN),
        read_later.alias("__read_later"),
    )  # fmt: skip
    return rows.where(~(F.col(UNKNOWN) & F.col("__read_later"))).drop("__read_later")


def _known(columns: StructType, key: Sequence[str], ordered: WindowSpec) -> dict[str, Column]:
    """Each column that is not of the key: its value, or the last one where it is unchanged."""
    return {
        field.name: F.when(
            F.array_contains(UNCHANGED, field.name), _last(field.name, ordered)["value"]
        ).otherwise(F.col(quoted(field.name)))
        for field in columns
        if field.name not in key
    }


def _unknown(columns: StructType, key: Sequence[str], ordered: WindowSpec) -> Column:
    lacking = [
        F.array_contains(UNCHANGED, field.name)
        & ~F.coalesce(_last(field.name, ordered)["known"], F.lit(False))
        for field in columns
        if field.name not in key
    ]
    return F.col(LIVE) & reduce(or_, lacking, F.lit(False))


def _last(name: str, ordered: WindowSpec) -> Column:
    """The newest value of a column up to a change; not known behind a deletion."""
    value = F.col(quoted(name))
    gone = F.struct(F.lit(False).alias("known"), F.nullif(value, value).alias("value"))
    told = F.when(~F.col(LIVE), gone).when(
        ~F.array_contains(UNCHANGED, name),
        F.struct(F.lit(True).alias("known"), value.alias("value")),
    )
    return F.last(told, ignorenulls=True).over(ordered)


def _names(columns: StructType) -> list[Column]:
    return [F.col(quoted(name)) for name in columns.names]


def _nothing() -> Column:
    return F.expr("cast(array() as array<string>)")
