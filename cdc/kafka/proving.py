"""The first record that a producer writes to a partition goes alone. No I/O of its own.

A broker that holds nothing of an idempotent producer takes any number for its first one. So when it
refuses a partition's first batch for good (too large, no key for a compacted topic), it may still
take the ones behind it that are on their way, and the partition's end would claim what was refused:
lost after the next start. Behind a record that was acknowledged, it refuses what follows a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from cdc.topics import partition_for

_partition_for: Final = lru_cache(1024)(partition_for)
"""A topic with partitions that stay empty has few keys."""
Produce = Callable[..., None]
_Held = list[tuple[Any, ...]]


class Proving:
    """Holds back what is behind each partition's first record until that is acknowledged."""

    def __init__(self, produce: Produce) -> None:
        self._produce = produce
        self._partitions: dict[str, int] = {}
        self._unproven: dict[str, dict[int, _Held | None]] = {}
        self._ready: _Held = []

    def proven(self, topic: str, partitions: Iterable[int]) -> bool:
        """Whether every one of the topic's partitions has taken a record."""
        if topic not in self._unproven:
            unproven: dict[int, _Held | None] = dict.fromkeys(partitions)
            self._unproven[topic] = unproven
            self._partitions[topic] = max(1, len(unproven))
        return not self._unproven[topic]

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
