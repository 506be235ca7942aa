"""What follows a lost session: how long to wait, how long to listen, when to give up. Pure.

A server that has gone silent is left for a new connection after ``silence_s``. One that is merely
busy, decoding a transaction of which nothing is captured, would then be made to begin again, for
ever; so each silence without progress doubles the patience with the next.
"""

from __future__ import annotations

from typing import Final

from cdc.errors import RetryableError, SourceError
from cdc.source.replication import SilentServerError, SlotInUseError

SLOT_WAIT_S: Final = 10.0
"""How long the server may take to notice that the previous capture is dead."""
_SLOT_RETRY_S: Final = 0.25
_FIRST_BACKOFF_S: Final = 0.1
_LONGEST_BACKOFF_S: Final = 5.0
_LONGEST_SILENCE_S: Final = 3600.0


class Reconnect:
    """One run's memory of its sessions. Times are seconds of one monotonic clock."""

    def __init__(self, reconnect_s: float, silence_s: float) -> None:
        self._reconnect_s = reconnect_s
        self._silence_s = self.silence_s = silence_s
        self._failing_since: float | None = None
        self._waiting_since: float | None = None
        self._backoff_s = _FIRST_BACKOFF_S

    def after(self, error: RetryableError, lasted_s: float, advanced: bool, now: float) -> float:
        """The pause after a session of ``lasted_s`` that ended with ``error``.

        ``advanced``: more was confirmed than before it. Raises ``SourceError`` when enough is
        enough.
        """
        if isinstance(error, SilentServerError) and not advanced:
            self.silence_s = min(2 * self.silence_s, _LONGEST_SILENCE_S)
        elif advanced:
            self.silence_s = self._silence_s
        if isinstance(error, SlotInUseError):
            return self._slot_in_use(error, now)
        self._waiting_since = None
        if self._failing_since is None or advanced or lasted_s > self._reconnect_s:
            self._failing_since, self._backoff_s = now, _FIRST_BACKOFF_S
        if now - self._failing_since > self._reconnect_s:
            raise SourceError(error.message, error.hint) from error
        pause_s = self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)
        return pause_s

    @property
    def waits(self) -> bool:
        """Whether the slot was somebody else's when last asked."""
        return self._waiting_since is not None

    def _slot_in_use(self, error: SlotInUseError, now: float) -> float:
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since > SLOT_WAIT_S:
            raise SourceError(error.message, error.hint) from error
        return _SLOT_RETRY_S
