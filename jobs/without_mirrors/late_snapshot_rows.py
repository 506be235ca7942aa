"""Rows of a snapshot that stand in the topic behind what deleted them.

Where a table joins the stream, its rows come from another process than its changes: a row read at
L can stand behind its delete, which was committed after L. Within a batch the position tells. In a
later batch only the store could, and one that keeps nothing of a deleted row would take it back.
So the changes before that batch are asked for what is deleted in the end
(``jobs.without_mirrors.earlier_changes``); but only if a delete was applied that is newer than the
oldest row of a snapshot in the batch, and that the store may have forgotten. Of a store whose rows
expire it is the same with every change.

A store that keeps every change has no place for a delete of a row that it never had. It is given
the row, and once more what has deleted it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc.events.codes import SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL
from jobs.sinks.schema_evolution import quoted
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.fold import EVENT

_NOWHERE = Position(0, 0)
_LSN, _ORDINAL = "__gone_lsn", "__gone_ordinal"
_TOGETHER_S: Final = 600.0


class ForgottenDeletes:
    """The newest delete that a store may have forgotten, which it does ``lasts_s`` after it was
    applied. ``ago_s``: how long ago an earlier process applied its last batch, None if there was
    none. ``clock`` is in seconds, and never goes back."""

    def __init__(
        self, lasts_s: float, ago_s: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lasts_s, self._clock = lasts_s, clock
        self._newest: Position | None = _NOWHERE
        self._held: deque[tuple[float, Position | None]] = deque()
        if ago_s is not None:
            self._held.append((clock() - ago_s, None))

    @property
    def newest(self) -> Position | None:
        """None where nobody knows it."""
        while self._held and self._clock() - self._held[0][0] >= self._lasts_s:
            _, position = self._held.popleft()
            if position is None or self._newest is None:
                self._newest = None
            else:
                self._newest = max(self._newest, position)
        return self._newest

    def applied(self, deleted: Position | None) -> None:
        """The newest delete of a batch that the store was given."""
        if deleted is None:
            return
        now_s, (since_s, newest) = self._clock(), self._held[-1] if self._held else (0.0, None)
        if newest is not None and now_s - since_s < _TOGETHER_S:
            self._held[-1] = since_s, max(newest, deleted)
        else:
            self._held.append((now_s, deleted))

    def learn(self, newest: Position) -> None:
        """What the log tells of all that was applied."""
        self._newest = newest


class Returning:
    """Takes late rows of snapshots from batches. ``before`` gives the rows that all changes before
    a batch amount to. Of a row that was read less than ``fresh_s`` ago the store remembers every
    delete that came after. One whose rows ``expires`` remembers other changes no longer."""

    def __init__(
        self,
        key: Sequence[str],
        before: Callable[[int], DataFrame],
        forgotten: ForgottenDeletes,
        fresh_s: float = 0.0,
        expires: bool = False,
    ) -> None:
        self._key, self._before, self._expires = tuple(key), before, expires
        self._forgotten, self._fresh_us = forgotten, fresh_s * 1e6

    def without(self, rows: DataFrame, counted: Account, number: int) -> DataFrame:
        """The batch's rows without those that were deleted before it, at a later position, or have
        expired since."""
        if self._may_hold(counted):
            rows = self._left(rows, number)
        self._forgotten.applied(counted.newest if self._expires else counted.deleted)
        return rows

    def deleted_again(self, rows: DataFrame, counted: Account, number: int) -> DataFrame:
        """The batch's rows, those of a snapshot with what has deleted them before it."""
        if self._may_hold(counted):
            rows = self._with_deletes(rows, counted, number)
        self._forgotten.applied(counted.deleted)
        self._forgotten.applied(counted.truncated)
        return rows

    def _may_hold(self, counted: Account) -> bool:
        """Whether a row of the batch may have been deleted before it."""
        if counted.read is None:
            return False
        if counted.read_us is not None and time.time() * 1e6 - counted.read_us < self._fresh_us:
            return False
        newest = self._forgotten.newest
        return newest is None or counted.read < newest

    def _learn(self, gone: DataFrame) -> None:
        """The newest of what has deleted something, where nobody knows it yet."""
        if self._forgotten.newest is None:
            newest = gone.agg(F.max(F.struct(_LSN, _ORDINAL)).alias("at")).collect()[0]["at"]
            self._forgotten.learn(_NOWHERE if newest is None else Position(*newest))

    def _left(self, rows: DataFrame, number: int) -> DataFrame:
        is_gone = F.lit(True) if self._expires else F.col(DELETED)
        gone = (
            self._before(number)
            .where(is_gone & ~F.col(EVENT)["op"].isin(SNAPSHOT, TRUNCATE))
            .select(
                *(F.col(quoted(name)) for name in self._key),
                F.col(COMMIT_LSN).alias(_LSN),
                F.col(ORDINAL).alias(_ORDINAL),
            )
        )
        self._learn(gone)
        later = F.struct(_LSN, _ORDINAL) > F.struct(COMMIT_LSN, ORDINAL)
        return rows.alias("r").join(gone.alias("g"), later & self._same_key(), "left_anti")

    def _with_deletes(self, rows: DataFrame, counted: Account, number: int) -> DataFrame:
        op = F.col(EVENT)["op"]
        gone = self._before(number).where(F.col(DELETED) & (op != SNAPSHOT))
        self._learn(gone.select(F.col(COMMIT_LSN).alias(_LSN), F.col(ORDINAL).alias(_ORDINAL)))
        if counted.read is None or not self._may_hold(counted):
            return rows
        read_at = F.struct(*(F.lit(part).cast("bigint") for part in counted.read))
        gone = gone.where(F.struct(COMMIT_LSN, ORDINAL) > read_at)
        read = rows.where(op == SNAPSHOT).select(*(F.col(quoted(name)) for name in self._key))
        of_rows = gone.where(op != TRUNCATE).alias("r")
        of_rows = of_rows.join(read.distinct().alias("g"), self._same_key(), "left_semi")
        again = of_rows.unionByName(gone.where(op == TRUNCATE))
        return rows.unionByName(again)

    def _same_key(self) -> Column:
        same = (F.col(f"r.{quoted(name)}") == F.col(f"g.{quoted(name)}") for name in self._key)
        return reduce(and_, same)
