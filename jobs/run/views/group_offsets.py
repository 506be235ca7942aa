"""How far each view of a process is, and the consumer groups that tell it to everybody else.

A view has reached a batch when its store holds what that batch and all before it have changed. Its
group ``headwater.<view>`` is committed at the offsets of that batch: for ``headwater wait``, for
``headwater lag``, and for any Kafka tool.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from cdc.errors import RetryableError
from cdc.kafka.broker import Broker, Offsets
from cdc.log_events import LogEvent
from cdc.topics import view_group
from jobs.without_mirrors.group_offsets import AGAIN_S

_REMEMBERED: Final = 2_000
"""Batches whose offsets are at hand; of older ones the state database is asked."""
_REST_S: Final = 1.0
_PATIENCE_S: Final = 1.0
"""How long the groups of other views are tried, when Kafka refuses one."""

log = structlog.get_logger("apply")


@dataclass(slots=True)
class _View:
    topics: frozenset[str]
    group: str = ""
    reached: int = -1
    committed: int = -1
    committed_at: float = -math.inf
    """By the clock."""
    refused: str = ""
    """What Kafka said to the last try, told once: as of a group that has members."""

    @property
    def is_due(self) -> bool:
        """Whether Kafka does not know how far it is."""
        return self.reached > self.committed


@dataclass(slots=True)
class GroupOffsets:
    """Use from any thread; ``commit`` from one. Generations of views are known by their ids.
    ``older`` finds the offsets of batches that are not at hand."""

    broker: Broker
    older: Callable[[Sequence[int]], dict[int, Offsets]]
    clock: Callable[[], float] = time.monotonic
    _views: dict[int, _View] = field(default_factory=dict)
    _offsets: dict[int, Offsets] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, id_: int, topics: Iterable[str]) -> None:
        """Tell of a generation whose view reads these topics."""
        with self._lock:
            self._views[id_] = _View(frozenset(topics))

    def show(self, id_: int, view: str) -> None:
        """Readers see this generation of a view: its group is committed from now on."""
        with self._lock:
            self._views[id_].group = view_group(view)

    def remove(self, id_: int) -> None:
        with self._lock:
            self._views.pop(id_, None)

    def batch(self, number: int, offsets: Offsets) -> None:
        """A batch was applied to the mirrors; it ended at ``offsets``."""
        with self._lock:
            self._offsets[number] = offsets
            for old in sorted(self._offsets)[:-_REMEMBERED]:
                del self._offsets[old]

    def reached(self, id_: int, batch: int) -> None:
        """A generation's store holds this batch whole."""
        with self._lock:
            if (found := self._views.get(id_)) is not None:
                found.reached = max(found.reached, batch)

    def lowest(self) -> int:
        """The last batch that all views have reached; -1 where one has not said yet."""
        with self._lock:
            return min((view.reached for view in self._views.values()), default=-1)

    def of(self, id_: int) -> int:
        """The last batch that a generation has reached; -1 where it has not said yet."""
        with self._lock:
            found = self._views.get(id_)
            return -1 if found is None else found.reached

    def commit(self, per_s: float = math.inf) -> None:
        """Commit the groups of the views that have come further, and of others once a day. All
        groups together are committed at most ``per_s`` times a second, so each rests, for a second
        at most. What cannot be committed now is with the next call."""
        began = self.clock()
        with self._lock:
            rest_s = min(_REST_S, sum(bool(view.group) for view in self._views.values()) / per_s)
            due = [
                (view, view.reached)
                for view in self._views.values()
                if view.group
                and view.reached >= 0
                and began >= view.committed_at + (rest_s if view.is_due else AGAIN_S)
            ]
            due.sort(key=lambda one: bool(one[0].refused))  # they may use up the patience
            at = {batch: self._offsets.get(batch) for _, batch in due}
        if missing := [batch for batch, offsets in at.items() if offsets is None]:
            at |= self.older(missing)
        for view, batch in due:
            offsets = at.get(batch)
            if offsets is None:  # forgotten: the next batch tells
                continue
            mine = {topic: offsets[topic] for topic in view.topics if topic in offsets}
            try:
                self.broker.commit_group(view.group, mine)
            except RetryableError as error:
                if view.refused != str(error):
                    log.warning(LogEvent.OFFSETS_NOT_COMMITTED, group=view.group, error=str(error))
                view.refused = str(error)
                if self.clock() > began + _PATIENCE_S:  # Kafka is away: so long for each
                    return
            else:
                view.committed, view.committed_at, view.refused = batch, began, ""
