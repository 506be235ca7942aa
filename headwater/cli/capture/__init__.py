"""``headwater capture``: the stream to Kafka, and snapshots that signals ask for."""

from headwater.cli.capture.command import register

__all__ = ["register"]
