"""A capture that is killed while tables join it, and the streams that it leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from tests.support.commands.deployment import Deployment, Event, assert_exactly_once_in_order
from tests.support.servers.forked_command import Child
from tests.support.waiting import wait_until


@dataclass(slots=True)
class KilledCapture:
    """``process`` is the one that runs now."""

    shop: Deployment
    stack: ExitStack
    process: Child

    def killed_twice(self, rng: random.Random) -> None:
        """Again as soon as it streams, or a moment after that: between its marks."""
        for _ in range(2):
            self.process.kill()
            self.process.wait(60)
            streams = self.shop.log("capture").count("streaming")
            self.process = self.stack.enter_context(self.shop.running("capture"))
            wait_until(partial(self._streams, streams), "capture to stream", 60)
            more = self.shop.records("item") + rng.choice((0, 1, 10, 100))
            wait_until(partial(self._holds, more), "records", 60)

    def _streams(self, before: int) -> bool:
        return self.shop.log("capture").count("streaming") > before

    def _holds(self, records: int) -> bool:
        return self.shop.records("item") >= records


@contextmanager
def captured(shop: Deployment) -> Iterator[KilledCapture]:
    """Capture runs until the end of the block."""
    with ExitStack() as stack:
        yield KilledCapture(shop, stack, stack.enter_context(shop.running("capture")))


def doubled(events: Sequence[Event]) -> list[str]:
    """What stands twice, or out of order, among the events that are no rows of a snapshot."""
    streamed = [event for event in events if event.value is None or event.position[1] > 0]
    try:
        assert_exactly_once_in_order(streamed)
    except AssertionError as error:
        return [str(error)]
    return []
