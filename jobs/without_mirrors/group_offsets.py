"""Offsets of a view without mirrors, committed to its consumer group, ``headwater.<view>``.

The view's thread commits them from the checkpoint's last committed batch: while the query runs, at
its end, and first of all at a start.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from cdc.errors import RetryableError
from cdc.kafka.broker import Broker
from cdc.log_events import LogEvent
from cdc.topics import view_group
from jobs.without_mirrors.query import ViewQuery

_RETRY_S: Final = 0.5
AGAIN_S: Final = 24 * 3_600.0
"""So often offsets are committed anew: Kafka forgets them after ``offsets.retention.minutes``, by
default a week, also of a table that does not change."""

log = structlog.get_logger("apply")


class GroupOffsets:
    """``batch`` is the last one whose offsets the group has, -1 before the first."""

    def __init__(
        self, view: str, stopping: threading.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.batch = -1
        self._view, self._clock, self._at_s = view, clock, -math.inf
        self._stopping = stopping

    def forget(self) -> None:
        """Another generation of the view is applied from here on: its batches have their own
        numbers."""
        self.batch = -1

    def commit_if_possible(self, broker: Broker, query: ViewQuery) -> None:
        """A group that cannot be committed now is with the next batch, or when the view starts."""
        try:
            self.commit(broker, query)
        except RetryableError as error:
            log.warning(LogEvent.OFFSETS_NOT_COMMITTED, view=self._view, error=str(error))
            self._stopping.wait(_RETRY_S)

    def commit(self, broker: Broker, query: ViewQuery) -> None:
        """Raises ``RetryableError`` while Kafka does not answer."""
        found, now_s = query.committed(), self._clock()
        if found is None or (found[0] == self.batch and now_s < self._at_s + AGAIN_S):
            return
        group = view_group(self._view)
        broker.commit_group(group, found[1], query.generation, query.replayed_until)
        self.batch, self._at_s = found[0], now_s
