"""What an alert tells of itself: to metrics, and with its place to whoever looks at it."""

from __future__ import annotations

from typing import NamedTuple


class Delivered(NamedTuple):
    """What is told with the place in a partition: when a message was taken last, in ms since 1970,
    0 before one was, and how many of the partition wait."""

    at_ms: int
    waiting: int

    @property
    def note(self) -> str:
        """In one word."""
        return f"{self.at_ms}:{self.waiting}"


def delivered(note: str) -> Delivered:
    """What such a word says; nothing of one that is none."""
    at_ms, _, waiting = note.partition(":")
    known = at_ms.isdecimal() and waiting.isdecimal()
    return Delivered(int(at_ms), int(waiting)) if known else Delivered(0, 0)


class Counts:
    """What the metrics tell; written by the thread of the alert alone."""

    sent = failed = letters = lag = 0
    sent_ms = 0
    """When a message was taken last, since 1970; 0 before one was."""
