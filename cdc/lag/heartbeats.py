"""The newest heartbeat of the source that each view has provably passed. Pure.

A mark with a heartbeat says at which offsets everything that was committed before it ends. A view
that has applied them all holds in its store what the source held when the heartbeat was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from cdc.lag.measure import PartitionLag

_REMEMBERED: Final = 1_000

Ends = Mapping[str, Mapping[int, int]]


class HeartbeatTrail:
    """The heartbeats that one view has not passed yet, as marks told of them."""

    def __init__(self) -> None:
        self._awaited: deque[tuple[float, Ends]] = deque(maxlen=_REMEMBERED)
        self._newest = 0.0
        self.passed_s: float | None = None
        """When the newest one was written that the view has passed, since 1970."""

    def look(
        self, heartbeat_s: float | None, ends: Ends, partitions: Iterable[PartitionLag]
    ) -> None:
        """The newest heartbeat, what its mark says, and where the view is now."""
        places = [(one.topic, one.partition, one.committed or 0) for one in partitions]
        if heartbeat_s is not None and heartbeat_s > self._newest:
            self._newest = heartbeat_s
            read = {topic: ends.get(topic, {}) for topic, _, _ in places}
            self._awaited.append((heartbeat_s, read))
        while self._awaited and _passed(self._awaited[0][1], places):
            self.passed_s = self._awaited.popleft()[0]


def _passed(ends: Ends, places: list[tuple[str, int, int]]) -> bool:
    """A partition that the mark does not name is younger than it."""
    return all(at >= ends[topic].get(partition, 0) for topic, partition, at in places)
