"""What is to be sent, in order by key, and how far everything is done. Pure.

Records of a partition are taken in order. Those that meet the condition wait in the lane of their
key, of which only the first is ever sent; all others are passed over at once. What may be committed
of a partition ends at the oldest one that waits: what was sent behind that is sent again after a
crash, with the same id.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from headwater.alerts.kept import Kept

MOST: Final = 1_000
MOST_BYTES: Final = 16 << 20
_Lane = tuple[int, bytes | None]


@dataclass(slots=True, eq=False)
class Delivery:
    """One message. ``refused`` says why it cannot be sent, where its event is not understood. Times
    are of the monotonic clock."""

    partition: int
    offset: int
    key: bytes | None
    id: str
    body: bytes
    refused: str = ""
    added_s: float = 0.0
    attempts: int = 0
    refused_s: float | None = None
    """When the receiver refused it last; None where it was away since."""
    refused_for_s: float = 0.0
    """How long the receiver has refused it, without the time in which that was away."""
    answered: int | None = None
    """How many answers there were when nobody took this one last."""
    is_alone: bool = False
    """Nobody took it while the receiver answered to others."""
    number: int = 0
    """In the order in which they were added; the queue gives it."""

    @property
    def lane(self) -> _Lane:
        return self.partition, self.key


class Queue:
    """Bounded by who reads no more while it ``is_full``."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._bytes = 0
        self._next: dict[int, int] = {}
        self._done: dict[int, Kept] = {}
        """What was done of each partition before it came."""
        self._at_ms = 0
        """When a message was taken last before these came, of all together."""
        self._waiting: dict[int, dict[int, Delivery]] = {}
        """By partition and offset, in the order of offsets."""
        self._lanes: dict[_Lane, deque[Delivery]] = {}
        self._ready: list[tuple[float, int, Delivery]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most or self._bytes >= self._most_bytes

    def passed(self, partition: int, offset: int) -> None:
        """A record has been taken."""
        assert offset >= self._next.get(partition, 0), "read in order, and once"
        self._next[partition] = offset + 1

    def add(self, delivery: Delivery) -> None:
        """One to be sent, of the record that was ``passed`` last."""
        delivery.number = next(self._numbers)
        self._waiting.setdefault(delivery.partition, {})[delivery.offset] = delivery
        self._bytes += len(delivery.body)
        lane = self._lanes.setdefault(delivery.lane, deque())
        lane.append(delivery)
        if len(lane) == 1:
            self._push(delivery.added_s, delivery)

    def take(self, now_s: float) -> Delivery | None:
        """One that may be sent now, the one that may be for the longest time. Call ``done`` or
        ``again`` for it."""
        while self._ready and self._ready[0][0] <= now_s:
            delivery = heapq.heappop(self._ready)[2]
            if self._is_first(delivery):
                return delivery
        return None

    def done(self, delivery: Delivery) -> None:
        """It was delivered, or is a dead letter: the next one of its key may go."""
        if not self._is_first(delivery):
            return  # its partition has gone meanwhile
        lane = self._lanes[delivery.lane]
        lane.popleft()
        self._bytes -= len(delivery.body)
        del self._waiting[delivery.partition][delivery.offset]
        if lane:
            self._push(lane[0].added_s, lane[0])
        else:
            del self._lanes[delivery.lane]

    def again(self, delivery: Delivery, at_s: float) -> None:
        """It is to be sent again then; its key waits with it."""
        if self._is_first(delivery):
            self._push(at_s, delivery)

    def commits(self) -> Mapping[int, int]:
        """The next offset of each partition below which everything is done."""
        return {
            partition: next(iter(self._waiting.get(partition, ())), at)
            for partition, at in self._next.items()
        }

    def resume(self, partition: int, done: Kept) -> None:
        """A partition comes, of which so much is done."""
        self._next.setdefault(partition, 0)
        self._done[partition] = done
        self._at_ms = max(self._at_ms, done.at_ms)

    def knows(self, partition: int) -> bool:
        return partition in self._next

    def is_done(self, partition: int, offset: int) -> bool:
        """Whether it was done before the partition came."""
        return partition in self._done and self._done[partition].is_done(offset)

    def kept(self, partition: int, at_ms: int) -> Kept:
        """To be kept with what ``commits`` says of a partition. ``at_ms`` is when a message was
        taken last since partitions came, 0 before one was."""
        left = list(self._waiting.get(partition, ()))
        before = self._done.get(partition, Kept())
        at, at_ms = self._next[partition], max(at_ms, self._at_ms)
        if at < before.reached:  # not read yet; what it knew of that still holds
            more = [offset for offset in sorted(before.left) if offset >= at]
            return Kept(at_ms, len(left), before.reached, [*left, *more])
        return Kept(at_ms, len(left), at, left)

    def drop(self, partitions: Collection[int]) -> None:
        """Forget those: somebody else goes on with them."""
        for partition in partitions:
            self._next.pop(partition, None)
            self._done.pop(partition, None)
            for delivery in self._waiting.pop(partition, {}).values():
                self._bytes -= len(delivery.body)
                self._lanes.pop(delivery.lane, None)

    def _is_first(self, delivery: Delivery) -> bool:
        lane = self._lanes.get(delivery.lane)
        return bool(lane) and lane is not None and lane[0] is delivery

    def _push(self, at_s: float, delivery: Delivery) -> None:
        heapq.heappush(self._ready, (at_s, delivery.number, delivery))
