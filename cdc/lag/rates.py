"""How fast work is done and comes in, and when it will be done, from measurements over time. Pure.

A count is what has been done so far and what there is to do, both growing: offsets, or LSNs.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

WINDOW_S: Final = 30.0
"""Speeds are of so long: a store that is written every ten seconds moves in steps."""


class Count(NamedTuple):
    """At a moment in seconds: ``done`` of ``total``."""

    at_s: float
    done: int
    total: int


class Rates(NamedTuple):
    """In a second. ``left`` is how much there was to do at the end."""

    done: float
    added: float
    left: int

    @property
    def gain(self) -> float:
        """By how much the work that is left shrinks in a second; below 0 it grows."""
        return self.done - self.added

    @property
    def catch_up_s(self) -> float | None:
        """Until nothing is left, if both speeds stay; None where that is never."""
        if self.left == 0:
            return 0.0
        return self.left / self.gain if self.gain > 0 else None


def rates(first: Count, last: Count) -> Rates | None:
    """Between two counts; None where no time has passed, or where one went back, as when a topic
    was made anew."""
    seconds = last.at_s - first.at_s
    if seconds <= 0 or last.done < first.done or last.total < first.total:
        return None
    left = max(0, last.total - last.done)
    return Rates((last.done - first.done) / seconds, (last.total - first.total) / seconds, left)


class Progress:
    """The counts of one view, or of capture, over the last ``window_s``."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._counts: deque[Count] = deque()
        self.moved_s: float | None = None
        """When more was done than before; of the first count, that one's moment."""

    def add(self, count: Count) -> None:
        """The next count."""
        before = self._counts[-1] if self._counts else None
        if before is None or count.done != before.done:
            self.moved_s = count.at_s
        self._counts.append(count)
        while len(self._counts) > 2 and self._counts[1].at_s <= count.at_s - self._window_s:
            self._counts.popleft()

    @property
    def seconds(self) -> float:
        """Over how long rates are."""
        return self._counts[-1].at_s - self._counts[0].at_s if self._counts else 0.0

    @property
    def rates(self) -> Rates | None:
        """Over the window; None before the second count."""
        return rates(self._counts[0], self._counts[-1]) if self._counts else None
