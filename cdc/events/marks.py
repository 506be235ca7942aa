"""Progress marks: what ``<source>.__progress`` says of a source. Pure.

A mark is a promise: every transaction with commit LSN <= ``lsn`` stands below ``offsets``, the next
offset of each partition. ``confirmed`` is the end LSN that may be confirmed to PostgreSQL once the
mark is acknowledged, ``lsn + 1``. It also names the history in which its LSNs mean something.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from cdc.errors import LogError


class Mark(NamedTuple):
    """One record of the progress topic."""

    confirmed: int
    offsets: dict[str, dict[int, int]]
    system_id: str
    timeline: int
    database: str
    slot: str
    heartbeat_ms: int | None = None
    """When the newest heartbeat that is durable was written; None before the first."""

    @property
    def lsn(self) -> int:
        """Every transaction that committed at or below it is covered."""
        return self.confirmed - 1

    def encode(self, now_ms: int) -> bytes:
        """The record's value."""
        document = {
            "lsn": self.lsn,
            "confirmed": self.confirmed,
            "offsets": {
                topic: {str(partition): offset for partition, offset in sorted(ends.items())}
                for topic, ends in sorted(self.offsets.items())
            },
            "system_id": self.system_id,
            "timeline": self.timeline,
            "database": self.database,
            "slot": self.slot,
            "heartbeat_ms": self.heartbeat_ms,
            "ts_ms": now_ms,
        }
        return json.dumps(document, separators=(",", ":")).encode()


def decode_mark(value: bytes, topic: str) -> Mark:
    """The mark in a record's value; raises ``LogError`` for anything else."""
    try:
        document: dict[str, Any] = json.loads(value)
        offsets = {
            name: {int(partition): int(offset) for partition, offset in ends.items()}
            for name, ends in document["offsets"].items()
        }
        beat = document.get("heartbeat_ms")  # marks of earlier versions have none
        return Mark(
            int(document["confirmed"]),
            offsets,
            str(document["system_id"]),
            int(document["timeline"]),
            str(document["database"]),
            str(document["slot"]),
            None if beat is None else int(beat),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogError(
            f"topic {topic} holds a record that is no progress mark: {error!r}",
            "something else writes to it; give this source a name of its own",
        ) from None
