"""When keys of deleted rows may be forgotten.

Rows of a snapshot stand in a table's topic behind what deleted them, for a while. How long is a
matter of the log and not of the clock: after an outage the stream reads rows that were published
when the deletes before them were news. So a key is forgotten when it was old at a moment, and the
stream has since read all that Kafka held then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdc.kafka.broker import Offsets
from jobs.state.batch.stream_offsets import stream_offsets
from jobs.state.mirrors.mirror_record import TOMBSTONE_LIFETIME_S, MirrorRecord, expire_tombstones
from jobs.state.server.connection import Connection


@dataclass(slots=True)
class TombstoneExpiry:
    """``clock`` is in seconds, and never goes back."""

    clock: Callable[[], float] = time.monotonic
    _noted: tuple[float, Offsets] | None = None

    def expire(
        self, conn: Connection, filled: Iterable[MirrorRecord], ends: Callable[[], Offsets]
    ) -> None:
        """Forget what may be, of these mirrors."""
        ago_s = self.noted_ago_s(stream_offsets(conn), ends)
        for one in filled if ago_s is not None else ():
            expire_tombstones(conn, one.table, TOMBSTONE_LIFETIME_S + (ago_s or 0.0))

    def noted_ago_s(self, held: Offsets, ends: Callable[[], Offsets]) -> float | None:
        """How long ago the moment was of which the stream, which is at ``held``, has read all; None
        if it has not. ``ends`` asks Kafka for what it holds, and the next moment is now."""
        ago_s = None
        if self._noted is not None:
            at_s, wanted = self._noted
            if not _has_all(held, wanted):
                return None
            ago_s = self.clock() - at_s
        self._noted = self.clock(), ends()
        return ago_s


def _has_all(held: Offsets, wanted: Offsets) -> bool:
    """Whether the stream has come so far in the topics that it still reads."""
    return all(
        held[topic].get(partition, 0) >= end
        for topic, ends in wanted.items()
        if topic in held
        for partition, end in ends.items()
    )
