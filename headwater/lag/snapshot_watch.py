"""Snapshots that are not complete, looked at again and again beside capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdc.config import Config
from cdc.lag.observer import Observer
from cdc.metrics.forecast_samples import SnapshotProgress
from cdc.source.bounded_query import answered
from cdc.source.postgres import Connection, connect
from snapshots.status import Standing, unfinished

_EVERY_S: Final = 5.0
_ANSWER_S: Final = 10.0


class SnapshotWatch:
    """Looks from its making to ``close``, on a thread of its own."""

    def __init__(self, config: Config) -> None:
        self._source = config.source
        self._conn: Connection | None = None
        self._observer: Observer[Sequence[Standing]] = Observer(
            self._look, self._disconnect, _EVERY_S
        )
        self._observer.start()

    @property
    def standings(self) -> Sequence[Standing]:
        """As they stood a moment ago; none while the source does not answer."""
        seen = self._observer.fresh
        return seen.found if seen else ()

    @property
    def found(self) -> Sequence[SnapshotProgress]:
        """How far they were."""
        return [progress(one) for one in self.standings]

    def close(self) -> None:
        """Look no longer."""
        self._observer.end()

    def _look(self) -> Sequence[Standing]:
        if self._conn is None:
            self._conn = connect(self._source.dsn, application_name="headwater lag")
        with answered(self._conn, _ANSWER_S):
            return unfinished(self._conn, self._source.name)

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def progress(standing: Standing) -> SnapshotProgress:
    """Of a snapshot, all its tables together. Pure."""
    tables = standing.tables
    left = [table.left_s for table in tables if not table.finished]
    known = [seconds for seconds in left if seconds is not None]
    moved = standing.moved_at
    return SnapshotProgress(
        standing.id,
        standing.rows,
        sum(table.share for table in tables) / len(tables) if tables else 0.0,
        max(known) if known and len(known) == len(left) else None,
        moved.timestamp() if moved else None,
    )
