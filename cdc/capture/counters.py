"""What one run of capture has done, in figures."""

from __future__ import annotations

from typing import NamedTuple


class Counters(NamedTuple):
    """What one run has done, for whoever watches. Moments are in seconds since 1970."""

    records: int
    received: int
    durable: int
    confirmed: int
    marked_s: float | None
    """When Kafka last acknowledged a progress mark."""
    heartbeat_s: float | None
    """When the newest heartbeat that is durable in Kafka was written."""
    dead_letters: int = 0
    null_values: int = 0
    """Values that the form has nothing for."""
    settled: int = 0
    """How many batches of records Kafka has acknowledged."""
