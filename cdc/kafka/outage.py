"""Kafka that acknowledges nothing of what waits for it: told once, and once when it is over."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time
from typing import Final

import structlog

from cdc.log_events import LogEvent

PATIENCE_S: Final = 3.0
"""How long records may wait without one acknowledgement before it is told."""

log = structlog.get_logger("capture")


class Outage:
    """What one producer waits for. Times are seconds of one monotonic clock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._acknowledged = 0
        self._silent_since: float | None = None
        self.since = ""
        """Since when Kafka acknowledges nothing, in UTC; empty while it does, or has nothing to."""

    def look(self, sent: int, acknowledged: int, trouble: str, now: float) -> None:
        """``sent`` acknowledgements are expected in all, so many came; ``trouble`` is what Kafka's
        client said last. Cheap."""
        if sent == acknowledged or acknowledged != self._acknowledged:
            self._acknowledged = acknowledged
            self._over(now)
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif not self.since and now - self._silent_since >= PATIENCE_S:
            began_s = time() - (now - self._silent_since)
            self.since = datetime.fromtimestamp(began_s, UTC).isoformat(timespec="seconds")
            log.warning(
                LogEvent.KAFKA_WAITED_FOR,
                address=self._address,
                since=self.since,
                reason=trouble or "no broker answers, and none refuses the connection",
            )

    def _over(self, now: float) -> None:
        if self.since and self._silent_since is not None:
            away_s = round(now - self._silent_since, 1)
            log.info(LogEvent.KAFKA_IS_BACK, address=self._address, away_s=away_s)
        self.since = ""
