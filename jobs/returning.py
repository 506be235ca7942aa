"""Rows of a snapshot that stand in the topic behind what deleted them.

Where a table joins the stream, its rows come from another process than its changes: a row read at
L can stand behind its delete, which was committed after L. Within a batch the position tells. In a
later batch only the store could, and one that keeps nothing of a deleted row would take it back.
So the topic is read once more, up to that batch, for what is deleted in the end; but only if a
delete was applied that is newer than the oldest row of a snapshot in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.lsn import Position
from jobs.account import Account
from jobs.fold import EVENT, SNAPSHOT, TRUNCATE
from jobs.sinks import COMMIT_LSN, DELETED, ORDINAL
from jobs.sinks.schema import quoted

_NOWHERE = Position(0, 0)
_LSN, _ORDINAL = "__gone_lsn", "__gone_ordinal"


class Returning:
    """Knows the newest delete that a view has applied. ``before`` gives the rows that all records
    before a batch amount to; ``begun``: some were applied by an earlier process."""

    def __init__(self, key: Sequence[str], before: Callable[[int], DataFrame], begun: bool) -> None:
        self._key, self._before = tuple(key), before
        self._deleted = None if begun else _NOWHERE

    def without(self, rows: DataFrame, counted: Account, number: int) -> DataFrame:
        """The batch's rows without those that were deleted before it, at a later position."""
        if counted.read is not None and (self._deleted is None or counted.read < self._deleted):
            rows = self._left(rows, number)
        if counted.deleted is not None and self._deleted is not None:
            self._deleted = max(self._deleted, counted.deleted)
        return rows

    def _left(self, rows: DataFrame, number: int) -> DataFrame:
        event = F.col(EVENT)
        deleted = F.col(DELETED) & ~event["op"].isin(SNAPSHOT, TRUNCATE)
        gone = (
            self._before(number)
            .where(deleted)
            .select(
                *(F.col(quoted(name)) for name in self._key),
                F.col(COMMIT_LSN).alias(_LSN),
                F.col(ORDINAL).alias(_ORDINAL),
            )
        )
        if self._deleted is None:
            newest = gone.agg(F.max(F.struct(_LSN, _ORDINAL)).alias("at")).collect()[0]["at"]
            self._deleted = _NOWHERE if newest is None else Position(*newest)
        later = F.struct(_LSN, _ORDINAL) > F.struct(COMMIT_LSN, ORDINAL)
        same = [F.col(f"r.{quoted(name)}") == F.col(f"g.{quoted(name)}") for name in self._key]
        condition = later
        for one in same:
            condition = condition & one
        return rows.alias("r").join(gone.alias("g"), condition, "left_anti")
