"""The columns of tables that keep what rows were, beside the view's own."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, TimestampType

from cdc.events.codes import SNAPSHOT
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, OP, ORDINAL

TO_LSN, TO_ORDINAL, TO, CURRENT = "__to_lsn", "__to_ordinal", "__valid_to", "__current"
FROM: Final = "__valid_from"
_POSITION = (StructField(COMMIT_LSN, LongType()), StructField(ORDINAL, LongType()))
CONTROL: dict[str, tuple[StructField, ...]] = {
    "log": (
        StructField(OP, StringType()),
        *_POSITION,
        StructField(COMMITTED_AT, TimestampType()),
    ),
    "scd2": (
        *_POSITION,
        StructField(FROM, TimestampType()),
        StructField(TO_LSN, LongType()),
        StructField(TO_ORDINAL, LongType()),
        StructField(TO, TimestampType()),
        StructField(CURRENT, BooleanType()),
    ),
}
"""By history: ``log`` or ``scd2``."""


def loaded(history: str) -> list[Column]:
    """Those columns of rows that a table is filled with from a snapshot."""
    nothing: dict[str, Any] = {OP: F.lit(SNAPSHOT), FROM: F.col(COMMITTED_AT), CURRENT: F.lit(True)}
    for name in (COMMIT_LSN, ORDINAL, COMMITTED_AT):
        nothing[name] = F.col(name)
    return [
        nothing.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in CONTROL[history]
    ]
