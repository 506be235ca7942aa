"""The parts of a micro-batch that may be applied one after the other. Pure."""

from __future__ import annotations

from enum import Enum

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.events.codes import SNAPSHOT


class Part(Enum):
    """Which records of a batch: all, or the rows of snapshots and the others apart."""

    WHOLE = ""
    READ = "read"
    STREAMED = "streamed"

    def of(self, parsed: DataFrame) -> DataFrame:
        """These of parsed events."""
        if self is Part.WHOLE:
            return parsed
        read = F.col("change.op") == SNAPSHOT
        return parsed.where(read if self is Part.READ else ~read)
