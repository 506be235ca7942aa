"""Events as capture publishes them, written by hand for tests of the Spark jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Record = tuple[bytes | None, bytes | None]
"""Key and value."""
COMMITTED_US = 1_700_000_000_123_456
_KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def event(
    lsn: int,
    ordinal: int,
    row: dict[str, Any],
    op: str = "c",
    key: tuple[str, ...] = ("id",),
    schema_id: str = "0" * 16,
    unchanged: list[str] | None = None,
) -> Record:
    """An insert, update or snapshot row; a delete's row is its old image."""
    before, after = (row, None) if op == "d" else (None, row)
    source: dict[str, Any] = {"commit_lsn": lsn, "ordinal": ordinal, "schema_id": schema_id}
    if unchanged is not None:
        source["unchanged"] = unchanged
    value = {
        "before": before,
        "after": after,
        "source": {"version": "0", "ts_us": COMMITTED_US + lsn, **source},
        "transaction": None,
        "op": op,
    }
    return _json({name: row[name] for name in key}), _json(value)


def snapshot(lsn: int, row: dict[str, Any], schema_id: str = "0" * 16) -> Record:
    """A row read at ``lsn``."""
    return event(lsn, 0, row, "r", schema_id=schema_id)


def delete(
    lsn: int, ordinal: int, row: dict[str, Any], schema_id: str = "0" * 16
) -> tuple[Record, Record]:
    """A delete and its tombstone."""
    deleted = event(lsn, ordinal, row, "d", schema_id=schema_id)
    return deleted, (deleted[0], None)


def truncate(lsn: int, ordinal: int, schema_id: str = "0" * 16) -> Record:
    """TRUNCATE of the table."""
    _, value = event(lsn, ordinal, {}, "t", key=(), schema_id=schema_id)
    return None, value


def kafka_frame(spark: SparkSession, records: Iterable[Record], first: int = 0) -> DataFrame:
    """Records as the Kafka source gives them: topic ``events``, partition 0, from an offset on."""
    at = datetime.fromtimestamp(COMMITTED_US / 1e6, UTC)
    rows = [(key, value, "events", 0, i, at) for i, (key, value) in enumerate(records, first)]
    return spark.createDataFrame(rows, _KAFKA)


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
