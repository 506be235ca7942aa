"""What a sink is given for touched keys: their rows, made anew from the mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc.lsn import Position
from jobs.delta_engine.queries import Maintenance
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.schema_evolution import quoted

_THERE = "__there"


@contextmanager
def made_anew(
    maintenance: Maintenance,
    session: SparkSession,
    columns: StructType,
    keys: pa.Table,
    position: Position,
    committed_us: int | None,
) -> Iterator[DataFrame]:
    """What a sink applies for touched keys, cached: their rows, deletions where there is none."""
    names = list(keys.column_names)
    with maintenance.relations(session) as relations:
        wanted = relations.frame(keys, None).alias("k")
        rows = maintenance.rows(session, keys, relations).withColumn(_THERE, F.lit(True))
        same = [F.col(f"k.{quoted(name)}") == F.col(f"r.{quoted(name)}") for name in names]
        joined = wanted.join(rows.alias("r"), reduce(and_, same), "left")
        shown = [
            F.col(f"{'k' if field.name in names else 'r'}.{quoted(field.name)}")
            .cast(field.dataType)
            .alias(field.name)
            for field in columns
        ]
        gone = F.col(f"r.{_THERE}").isNull()
        held = joined.select(*shown, *controls(position, committed_us, gone))
        with persisted(held):
            yield held


@contextmanager
def made_whole(
    maintenance: Maintenance,
    session: SparkSession,
    columns: StructType,
    position: Position,
    committed_us: int | None,
) -> Iterator[DataFrame]:
    """All rows of the view, as for a sink that has none of them; cached."""
    with maintenance.relations(session) as relations:
        rows = maintenance.everything(session, relations)
        shown = [
            F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in columns
        ]
        held = rows.select(*shown, *controls(position, committed_us, F.lit(False)))
        with persisted(held):
            yield held


@contextmanager
def persisted(rows: DataFrame) -> Iterator[None]:
    """Rows that are evaluated once meanwhile, however often they are read."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def controls(position: Position, committed_us: int | None, deleted: Column) -> list[Column]:
    """What a sink needs beside the view's columns, the same of all rows but for ``deleted``."""
    at = F.lit(None).cast("timestamp")
    if committed_us is not None:
        at = F.timestamp_micros(F.lit(committed_us))
    return [
        deleted.alias(DELETED),
        F.lit(position.commit_lsn).cast("bigint").alias(COMMIT_LSN),
        F.lit(position.ordinal).cast("bigint").alias(ORDINAL),
        F.expr("cast(array() as array<string>)").alias(UNCHANGED),
        at.alias(COMMITTED_AT),
    ]
