"""MERGE into a view's table by Spark, and its expressions: ``t`` is the table, ``s`` the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.schema_evolution import quoted

if TYPE_CHECKING:
    from delta import DeltaTable
    from delta.tables import DeltaMergeBuilder

# Literals of exactly the column's type: with a cast around them Delta skips no file.
_LITERALS: dict[type[DataType], Callable[[Any], Column]] = {
    IntegerType: F.lit,
    LongType: lambda value: F.expr(f"{value}L"),
    StringType: F.lit,
}


def merged(
    table: DeltaTable, rows: DataFrame, columns: StructType, key: tuple[str, ...], facts: Row
) -> DeltaMergeBuilder:
    """The MERGE of a batch, to be executed: what is newer in ``rows`` replaces, deletes or inserts.

    ``facts`` are the batch's ``bounds``, and as ``partial`` whether it leaves values unchanged.
    """
    held = (of("t", COMMIT_LSN), of("t", ORDINAL))
    later = newer(of("s", COMMIT_LSN), of("s", ORDINAL), held)
    deleted, partial = of("s", DELETED), bool(facts["partial"])
    names = (*columns.names, COMMIT_LSN, ORDINAL)
    return (
        table.alias("t")
        .merge(rows.alias("s"), match(columns, key, facts))
        .whenMatchedDelete(later & deleted)
        .whenMatchedUpdate(later, {quoted(n): updated(n, partial) for n in names})
        .whenNotMatchedInsert(~deleted, {quoted(n): of("s", n) for n in names})
    )


def of(side: str, name: str) -> Column:
    """A column of the table (``t``) or of the batch (``s``)."""
    return F.col(f"{side}.{quoted(name)}")


def newer(lsn: Column | int, ordinal: Column | int, than: tuple[Column, Column]) -> Column:
    """Whether position (``lsn``, ``ordinal``) is above another; equal ones are the same change.

    A row without one, which somebody else wrote, is older than all.
    """
    held = [F.coalesce(part, F.lit(0)) for part in than]
    return (held[0] < lsn) | ((held[0] == lsn) & (held[1] < ordinal))


def bounds(columns: StructType, key: tuple[str, ...]) -> list[Column]:
    """Aggregates of a batch that ``match`` needs."""
    return [
        bound(F.col(quoted(name))).alias(f"{bound.__name__}_{name}")
        for name in key
        if type(columns[name].dataType) in _LITERALS
        for bound in (F.min, F.max)
    ]


def match(columns: StructType, key: tuple[str, ...], facts: Row) -> Column:
    """Equal keys, and within the batch's bounds."""
    return same(key) & within(columns, key, facts.asDict(), "t")


def same(key: tuple[str, ...]) -> Column:
    """Equal keys."""
    return reduce(and_, (of("t", name) == of("s", name) for name in key))


def within(
    columns: StructType, key: tuple[str, ...], facts: Mapping[str, Any], side: str = ""
) -> Column:
    """The batch's ``bounds`` as literals, by which Delta leaves files unread."""
    terms = [F.lit(True)]
    for name in key:
        if literal := _LITERALS.get(type(columns[name].dataType)):
            low, high = literal(facts[f"min_{name}"]), literal(facts[f"max_{name}"])
            held = of(side, name) if side else F.col(quoted(name))
            terms += [held >= low, held <= high]
    return reduce(and_, terms)


def updated(name: str, partial: bool) -> Column:
    """What an update sets: the new value, or the old one where it is unchanged."""
    if not partial or name in (COMMIT_LSN, ORDINAL):
        return of("s", name)
    unchanged = F.array_contains(of("s", UNCHANGED), name)
    return F.when(unchanged, of("t", name)).otherwise(of("s", name))
