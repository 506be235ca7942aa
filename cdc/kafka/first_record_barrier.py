"""The first record that a producer writes to a partition goes alone, and so does the first one
after a while without any. No I/O of its own.

A broker that holds nothing of an idempotent producer takes any number for its first one. So when it
refuses a partition's first batch for good (too large, no key for a compacted topic), it may still
take the ones behind it that are on their way, and the partition's end would claim what was refused:
lost after the next start. Behind a record that was acknowledged, it refuses what follows a gap.

And a broker forgets: a producer whose newest record in a partition is older than the broker's
``producer.id.expiration.ms`` (a day by default). So a partition that rests has to be proven again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from time import time
from typing import Any, Final

from cdc.topics import partition_for

_partition_for: Final = lru_cache(1024)(partition_for)
"""A topic with partitions that stay empty has few keys."""
REST_S: Final = 300.0
"""After less than four times as long without a record a partition is unproven again. A day would be
too much: the broker counts from the record's own time, by this machine's clock, and looks every ten
minutes by default (``ProducerStateManager.isProducerExpired``). It costs one wait for an
acknowledgement, where there was nothing to do for minutes."""
Produce = Callable[..., None]
_Held = list[tuple[Any, ...]]


class Proving:
    """Holds back what is behind each partition's first record until that is acknowledged.

    ``clock`` is the time of day, in seconds: it counts while the machine sleeps, as the broker's.
    """

    def __init__(self, produce: Produce, clock: Callable[[], float] = time) -> None:
        self._produce = produce
        self._clock = clock
        self._partitions: dict[str, int] = {}
        self._unproven: dict[str, dict[int, _Held | None]] = {}
        self._seen: dict[str, tuple[float, dict[int, int]]] = {}
        self._ready: _Held = []

    def proven(self, topic: str, offsets: Mapping[int, int]) -> bool:
        """Whether every one of the topic's partitions has taken a record lately. ``offsets`` has
        the next offset of each, which moves with each acknowledgement."""
        now = self._clock()
        if topic not in self._seen:
            self._unproven[topic] = dict.fromkeys(offsets)
            self._partitions[topic] = max(1, len(offsets))
            self._seen[topic] = now, dict(offsets)
        elif abs(now - self._seen[topic][0]) >= REST_S:  # a clock may be set back
            self._look(topic, offsets, now)
        return not self._unproven[topic]

    def _look(self, topic: str, offsets: Mapping[int, int], now: float) -> None:
        """What got nothing since the last look rests; nobody knows of a look that is long ago."""
        then, seen = self._seen[topic]
        long_ago = abs(now - then) >= 2 * REST_S
        for partition, offset in offsets.items():
            if long_ago or offset == seen.get(partition):
                self._unproven[topic].setdefault(partition, None)
        self._seen[topic] = now, dict(offsets)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: Callable[[Any, Any], None] | None,
        *more: Any,
    ) -> None:
        """As the client's ``produce``, for a topic that ``proven`` was asked of."""
        unproven = self._unproven[topic]
        at = partition if partition >= 0 else _partition_for(key, self._partitions[topic])
        if at not in unproven:
            self._produce(topic, value, key, partition, on_delivery, *more)
            return
        held = unproven[at]
        if held is not None:
            held.append((topic, value, key, partition, on_delivery, *more))
            return
        unproven[at] = []

        def first(error: Any, message: Any) -> None:
            if on_delivery is not None:
                on_delivery(error, message)
            if error is None:
                self._ready += unproven.pop(at) or ()

        self._produce(topic, value, key, partition, first, *more)

    def release(self) -> None:
        """Hand over what need not wait any more: right after acknowledgements were served, and
        not among them, for the client loses what a callback raises."""
        if self._ready:
            ready, self._ready = self._ready, []
            for arguments in ready:
                self._produce(*arguments)
