"""What capture says of its own lag: the source is looked at, and Kafka's part is known here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.lag.measure import Lag, capture_lag
from cdc.lag.report import Assessor, Report
from cdc.lag.source_session import SourceSession

if TYPE_CHECKING:
    from cdc.capture.counters import Counters


class CaptureWatch:
    """``counters`` says where capture stands. Use from one thread."""

    def __init__(self, config: Config, counters: Callable[[], Counters]) -> None:
        self._counters, self._slot = counters, config.source.slot_name
        self._source = SourceSession(config.source.dsn, config.alerts.wal_volume_bytes)
        self._assessor = Assessor(config.capture.heartbeat_s)
        self._settled = 0
        self._moved_s: float | None = None

    def look(self) -> Report:
        """Also of a source that does not answer: then it is unknown."""
        now_s, activity = time.time(), None
        try:
            activity = self._source.activity(self._slot)
        except HeadwaterError:
            self._source.close()
        done = self._counters()
        wal_end = activity.wal_end if activity else done.durable
        slot = capture_lag(self._slot, activity)
        if done.settled != self._settled:
            self._settled, self._moved_s = done.settled, now_s
        marked = done.heartbeat_s, done.marked_s
        lag = Lag(wal_end, done.durable - 1, slot, (), now_s, *marked, moved_s=self._moved_s)
        return self._assessor.report(lag)

    def close(self) -> None:
        """Let go of the source; the next look connects again."""
        self._source.close()
