"""What an alert tells of itself to metrics."""

from __future__ import annotations


class Counts:
    """What the metrics tell; written by the thread of the alert alone."""

    sent = failed = letters = lag = 0
    sent_ms = 0
    """When a message was taken last, since 1970; 0 before one was."""
