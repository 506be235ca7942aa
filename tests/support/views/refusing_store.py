"""A store that refuses some rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, ORDINAL, Batch
from jobs.sinks.row_errors import Refused, refused_rows
from tests.support.views.recording_sink import RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RefusingSink(RecordingSink):
    """Rows whose key, a single one, is in ``refused`` are not taken; all others are."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[object] = set()

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        (key,) = self._key
        bad = [row for row in rows.collect() if row[key] in self.refused]
        super().apply(rows.where(~rows[key].isin([row[key] for row in bad])), batch)
        if bad:
            told = [
                Refused(str(row[key]), Position(row[COMMIT_LSN], row[ORDINAL]), "not of my mapping")
                for row in bad
            ]
            raise refused_rows("memory", told)
