"""Parquet files that Spark reads as they are, without a table's log.

Opening a Delta table costs Spark jobs of its own, each time. Which files a mirror consists of is
known to delta-rs in milliseconds, and a mirror has none of the features that make a file mean
anything else than what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

GROUP_ROWS = 65_536
"""Of a file: what is written at once is read by several tasks."""
_AS_THEY_ARE = ("__globPaths__", "false")
"""A path is a path: names of tables may hold what a pattern does."""


def read_files(session: SparkSession, files: Sequence[Path], columns: StructType) -> DataFrame:
    """The rows of files. A column that a file lacks is NULL."""
    if not files:
        return session.createDataFrame([], columns)
    reader = session.read.format("parquet").schema(columns).option(*_AS_THEY_ARE)
    return reader.load([str(file) for file in files])
