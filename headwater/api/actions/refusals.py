"""How often it is written down that somebody was refused: who may do nothing must not fill the
disk either. Use from the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LINES: Final = 5
"""For each caller in ``_SPAN_S``; one more says that others are counted."""
_SPAN_S: Final = 60.0


class Refusals:
    """``now`` is in seconds from whenever."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._counts: dict[str, tuple[float, int]] = {}

    def line_of(self, who: str, why: str) -> str | None:
        """What the line of one more says; None where none is to be written."""
        now = self._now()
        begun, count = self._counts.get(who, (now, 0))
        if now - begun >= _SPAN_S:
            self._counts[who] = now, 1
            left = count - LINES - 1
            return f"{why}; {left:,} before it were not written down" if left > 0 else why
        self._counts[who] = begun, count + 1
        if count < LINES:
            return why
        return f"{why}; further ones of this minute are counted" if count == LINES else None
