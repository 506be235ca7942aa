"""What goes wrong in a run, and how often; and the clock of a run."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

_TICK_S: Final = 0.002


class CrashError(Exception):
    """The process is gone: nothing in capture may catch it."""


class Faults(NamedTuple):
    """Probabilities: of the first three in each turn of the loop, of the others each time."""

    crash: float = 0.0
    lost_session: float = 0.0
    stop: float = 0.0
    lost_read: float = 0.0
    """The connection breaks and takes frames with it that the server has sent."""
    lost_feedback: float = 0.0
    crash_in_poll: float = 0.0
    slow_partition: float = 0.0
    """A partition acknowledges nothing, or only some of what is in flight, in one poll."""
    table_add: float = 0.0
    """In one poll, rows of `headwater table add` come into a partition of a table's topic."""


CALM: Final = Faults()
TROUBLED: Final = Faults(
    crash=0.06,
    lost_session=0.03,
    stop=0.005,
    lost_read=0.1,
    lost_feedback=0.5,
    crash_in_poll=0.02,
    slow_partition=0.8,
    table_add=0.02,
)


class Chance:
    """Whether a fault strikes: one seeded source for a whole run."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.rng = random.Random(seed)
        self.faults = faults

    def strikes(self, probability: float) -> bool:
        return self.rng.random() < probability


class Clock:
    """Time that only passes by being asked for."""

    def __init__(self) -> None:
        self._now_s = 1_000.0

    def monotonic(self) -> float:
        self._now_s += _TICK_S
        return self._now_s

    def time_ns(self) -> int:
        return 1_700_000_000_000_000_000 + int(self._now_s * 1e9)
