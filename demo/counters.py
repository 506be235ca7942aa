"""How far the demo's pipeline has come, read from Kafka alone: counters, and goals to reach."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.marks import newest_mark
from cdc.topics import table_topic, view_group
from demo.status import Board

_EVERY_S = 0.5


class Goal(NamedTuple):
    """Next-offsets below which everything stands that was committed up to some LSN."""

    offsets: Offsets


class Watch:
    """Polls Kafka at most every half second; ``views`` maps each view to its tables."""

    def __init__(
        self,
        bootstrap_servers: str,
        source: str,
        tables: Sequence[str],
        views: Mapping[str, Sequence[str]],
    ) -> None:
        self._broker = Broker(bootstrap_servers)
        self._source = source
        self._topics = [table_topic(source, "public", table) for table in tables]
        self._views = {
            view: [table_topic(source, "public", table) for table in read]
            for view, read in views.items()
        }
        self._next = 0.0

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.close()

    def poll(self, board: Board) -> None:
        """Bring the board's counters up to date, if it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        ends = self._broker.end_offsets(self._topics)
        board.events = sum(sum(of_topic.values()) for of_topic in ends.values())
        for view in board.views:
            view.behind = self._missing(ends, view.name)

    def goal(self, lsn: int) -> Goal | None:
        """What has to be applied for everything committed up to ``lsn``; None while capture has
        not published all of it."""
        stored = newest_mark(self._broker, self._source)
        if stored is None or stored.mark.lsn < lsn:
            return None
        return Goal(stored.mark.offsets)

    def reached(self, goal: Goal, view: str) -> bool:
        """Whether a view has applied all that a goal names."""
        return self._missing(goal.offsets, view) == 0

    def _missing(self, ends: Offsets, view: str) -> int:
        """Records between what a view has applied and the ends, over its tables' topics."""
        topics = self._views[view]
        applied = self._broker.committed(view_group(view), topics)
        return sum(_between(applied.get(topic, {}), ends.get(topic, {})) for topic in topics)


def _between(applied: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """Records from what is applied to the ends, over the partitions of one topic."""
    return sum(max(0, end - applied.get(partition, 0)) for partition, end in ends.items())
