"""Up to which moment everything that the source committed is in Kafka. Pure.

A change that capture has not read yet leaves no trace in Kafka, so its age cannot be read there.
But the source is looked at again and again: once Kafka's newest mark covers the end of WAL that a
look found, everything that was committed before that look is in Kafka. What was committed later is
younger than that look, and there is none while no transaction has written since.

Before a first look is covered, the heartbeat in the mark says the same, less precisely.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

_LOOKS: Final = 7_200
"""So many are remembered: two hours of one a second."""


class Look(NamedTuple):
    """The source at a moment in seconds; ``transactions`` is the same while nothing is written."""

    at_s: float
    wal_end: int
    transactions: str


class SourceHorizon:
    """Use from one thread."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=_LOOKS)

    def add(self, look: Look, confirmed: int | None) -> None:
        """A look, and the end LSN below which Kafka has everything, which was read after it."""
        self._looks.append(look)
        while len(self._looks) > 1 and confirmed is not None:
            if self._looks[1].wal_end > confirmed:
                return
            self._looks.popleft()

    def complete_until_s(self, confirmed: int | None, heartbeat_s: float | None) -> float | None:
        """The moment before which everything that was committed is in Kafka: the newest look where
        nothing is missing. ``heartbeat_s`` is when the newest heartbeat in Kafka was written. None
        where neither tells."""
        if not self._looks or confirmed is None or self._looks[0].wal_end > confirmed:
            return heartbeat_s
        return max(self._unwritten_until_s(), heartbeat_s or 0.0)

    def _unwritten_until_s(self) -> float:
        """The newest look until which nothing was written since the first, which is covered."""
        covered, until_s = self._looks[0], self._looks[0].at_s
        for look in self._looks:
            if look.transactions != covered.transactions:
                break
            until_s = look.at_s
        return until_s
