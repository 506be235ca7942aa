"""How far each view of a process is, and the consumer groups that tell it to everybody else.

A view has reached a batch when its store holds what that batch and all before it have changed. Its
group ``headwater.<view>`` is committed at the offsets of that batch: for ``headwater wait``, for
``headwater lag``, and for any Kafka tool. It never says more than what the store that readers see
holds, also while that changes from one generation to another (``jobs.run.views.switch``).
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
from cdc.lag.measure import of_these_topics
from cdc.log_events import LogEvent
from cdc.topics import view_group
from jobs.without_mirrors.group_offsets import AGAIN_S

_REMEMBERED: Final = 2_000
"""Batches whose offsets are at hand; of older ones the state database is asked."""
_REST_S: Final = 1.0
_PATIENCE_S: Final = 1.0
"""How long the groups of other views are tried, when Kafka refuses one."""
WENT_BACK: Final = "rollback"
"""What is noted with the offsets of a group that went back, and how far it was."""

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
    """Use from any thread; ``commit`` from one at a time. Generations are known by their ids.
    ``older`` finds the offsets of batches that are not at hand."""

    broker: Broker
    older: Callable[[Sequence[int]], dict[int, Offsets]]
    clock: Callable[[], float] = time.monotonic
    _views: dict[int, _View] = field(default_factory=dict)
    _offsets: dict[int, Offsets] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _committing: threading.Lock = field(default_factory=threading.Lock)
    """Held while one group is committed; taken before the other."""

    def add(self, id_: int, topics: Iterable[str]) -> None:
        """Tell of a generation whose view reads these topics."""
        with self._lock:
            self._views[id_] = _View(frozenset(topics))

    def show(self, id_: int, view: str) -> None:
        """Readers see this generation of a view: its group is committed from now on."""
        with self._lock:
            if (found := self._views.get(id_)) is not None:
                found.group, found.committed, found.committed_at = view_group(view), -1, -math.inf

    def hide(self, id_: int) -> None:
        """This generation's group is committed no more, until ``show``; none is under way."""
        with self._committing, self._lock:
            if (found := self._views.get(id_)) is not None:
                found.group = ""

    def remove(self, id_: int) -> None:
        """A commit may be under way: ``settle`` waits for it."""
        with self._lock:
            self._views.pop(id_, None)

    def settle(self) -> None:
        """No group of a generation that was removed is committed from here on."""
        with self._committing:
            pass

    def go_back(self, id_: int, view: str) -> None:
        """Commit the group of a view to where Kafka's records begin: nobody knows how far this
        generation, which readers are to see again, has come. How far the group was is noted with
        it (``known_offsets``). Nobody else commits it meanwhile. Raises ``RetryableError``."""
        with self._lock:
            topics, group = sorted(self._views[id_].topics), view_group(view)
        furthest, held = known_offsets(self.broker, group, topics)
        oldest, ends = self.broker.beginning_offsets([*held]), self.broker.end_offsets([*held])
        back = {
            topic: {
                # Where all records have expired, the last of them is not applied.
                n: min(of_topic[n], oldest[topic][n], max(0, end - 1))
                for n, end in ends[topic].items()
                if n in of_topic
            }
            for topic, of_topic in held.items()
        }
        if back:
            self.broker.commit_group(group, back, WENT_BACK, of_these_topics(furthest, ends))

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
                (id_, view, view.reached)
                for id_, view in self._views.items()
                if view.group
                and view.reached >= 0
                and began >= view.committed_at + (rest_s if view.is_due else AGAIN_S)
            ]
            due.sort(key=lambda one: bool(one[1].refused))  # they may use up the patience
            at = {batch: self._offsets.get(batch) for _, _, batch in due}
        if missing := [batch for batch, offsets in at.items() if offsets is None]:
            at |= self.older(missing)
        for id_, view, batch in due:
            offsets = at.get(batch)
            if offsets is None:  # forgotten: the next batch tells
                continue
            mine = {topic: offsets[topic] for topic in view.topics if topic in offsets}
            with self._committing:
                if not self._is_shown(id_, view):
                    continue
                try:
                    self.broker.commit_group(view.group, mine)
                except RetryableError as error:
                    if view.refused != str(error):
                        event = LogEvent.OFFSETS_NOT_COMMITTED
                        log.warning(event, group=view.group, error=str(error))
                    view.refused = str(error)
                    if self.clock() > began + _PATIENCE_S:  # Kafka is away: so long for each
                        return
                else:
                    view.committed, view.committed_at, view.refused = batch, began, ""

    def _is_shown(self, id_: int, view: _View) -> bool:
        with self._lock:
            return self._views.get(id_) is view and bool(view.group)


def known_offsets(broker: Broker, group: str, topics: Sequence[str]) -> tuple[Offsets, Offsets]:
    """How far a view's group was before it went back, if it has, and where it is."""
    held = broker.committed(group, topics)
    were = broker.reached(group, topics, WENT_BACK)
    furthest = {
        topic: {n: max(at, were.get(topic, {}).get(n, 0)) for n, at in of_topic.items()}
        for topic, of_topic in held.items()
    }
    return furthest, held
