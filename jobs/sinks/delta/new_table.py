"""An empty Delta table, made by this process where it is on this machine: its first commit is three
lines, and the first table that Spark makes in a process takes seconds, in which it loads a query
engine. What a table needs of Delta that is not listed here, Spark gives it.

Delta's protocol ("Protocol Evolution", "Change Metadata").
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from delta.tables import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs.sinks.delta.delta_reader import folder_of, is_local, is_plain
from jobs.sinks.delta.errors import Layout
from jobs.sinks.delta.log import commit

_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
_VECTORS: Final = "delta.enableDeletionVectors"
_NTZ: Final = "delta.feature.timestampNtz"
_KNOWN: Final = frozenset(
    (_VECTORS, _NTZ, "delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
)
"""What is known of Delta's own properties; all others are nobody's but ours."""
_EVERY: Final = ("appendOnly", "invariants")
"""Features of the oldest writers, which a list of features names like all others."""


def create_table(
    spark: SparkSession, path: str, columns: StructType, how: Layout, properties: dict[str, str]
) -> None:
    """Make an empty table, if there is none."""
    ordinary = how == Layout() and _is_ordinary(columns, properties)
    if ordinary and not _has_defaults(spark) and _is_free(path):
        folder = folder_of(path)
        (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
        with suppress(CommitFailedError):  # somebody else has made it
            commit(folder, -1, _first(columns, properties), None, "CREATE TABLE")
        return
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(columns)
    if how.partitions:
        builder = builder.partitionedBy(*how.partitions)
    if how.clusters:
        builder = builder.clusterBy(*how.clusters)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()


def _is_ordinary(columns: StructType, properties: Mapping[str, str]) -> bool:
    """Whether names differ by more than case, which is Spark's to refuse, and all is known."""
    names = {name.lower() for name in columns.names}
    ours = {name for name in properties if not name.startswith("delta.")}
    return is_plain(columns) and len(names) == len(columns) and properties.keys() <= _KNOWN | ours


def _has_defaults(spark: SparkSession) -> bool:
    """Whether the session gives properties to all new tables."""
    return any(name.startswith(_DEFAULTS) for name in spark.conf.getAll)


def _is_free(path: str) -> bool:
    """Whether no table is there yet, nor anything else but what a killed process left of making
    one, in a place that this process can write to."""
    if not is_local(path):
        return False
    folder = folder_of(path)
    if not folder.exists():
        return True
    logs = [one.name for one in (folder / "_delta_log").glob("*")]
    committed = any(name.endswith((".json", ".parquet")) and name[0] != "." for name in logs)
    return not committed and {one.name for one in folder.iterdir()} <= {"_delta_log"}


def _first(columns: StructType, properties: Mapping[str, str]) -> list[Mapping[str, Any]]:
    features = ["timestampNtz"] if '"timestamp_ntz"' in columns.json() else []
    if properties.get(_VECTORS) == "true":
        features.append("deletionVectors")
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": [*features, *_EVERY],
        }
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": columns.json(),
        "partitionColumns": [],
        "configuration": {name: of for name, of in properties.items() if name != _NTZ},
        "createdTime": time.time_ns() // 1_000_000,
    }
    return [{"protocol": protocol}, {"metaData": metadata}]
