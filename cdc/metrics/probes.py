"""What a process says of itself to who restarts it, and to who sends work to it.

*Live*: its loop moves; if not, a restart helps. *Ready*: it does its work now; if not, a restart
does not help, for a server is away, or somebody has to act. A process that waits for Kafka is live
and not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

LIVE_S: Final = 120.0
"""A loop that has not moved for longer hangs: every wait for a server ends sooner."""
_STARTING: Final = "it is starting"


class Probes:
    """``moved`` is called by the process's loop, the rest by the HTTP server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moved: float | None = None
        self._missing: list[Callable[[], Sequence[str]]] = []
        self.begins: Callable[[], bool] = lambda: False
        """Whether the loop is at something that may take long, and is no fault."""

    def moved(self) -> None:
        """The loop has made a turn."""
        self._moved = self._clock()

    def ready_unless(self, missing: Callable[[], Sequence[str]]) -> None:
        """Ready when ``missing`` names nothing, nor does any other that was given here."""
        self._missing.append(missing)

    def live(self) -> tuple[bool, str]:
        """Whether the loop moves, and why that is said."""
        if (moved := self._moved) is None or self.begins():
            return True, _STARTING
        age_s = self._clock() - moved
        if age_s > LIVE_S:
            return False, f"the loop has not moved for {age_s:.0f} s"
        return True, "the loop moves"

    def ready(self) -> tuple[bool, Sequence[str]]:
        """Whether it does its work, and what is missing."""
        if self._moved is None:
            return False, [_STARTING]
        missing = [one for missing in self._missing for one in missing()]
        return not missing, missing
