"""The reader that notes when each row could be read, asked while it reads."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from benchmarks.capture.consumer import Reader

_ROWS = 50_000
_END_S = 60.0


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """A collector that runs at nearly every object, and threads that take turns all the time: in
    what the collector calls, too."""

    def called(_phase: str, _info: dict[str, int]) -> None:
        for _ in range(10):
            pass

    threshold, interval_s = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(called)
    gc.set_threshold(1)
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*threshold)
        gc.callbacks.remove(called)


@pytest.mark.usefixtures("eager_collector")
def test_it_can_be_asked_for_the_first_row_while_more_come() -> None:
    reader = Reader("localhost:1", "none")
    message = SimpleNamespace(error=lambda: None)
    ended = threading.Event()

    def read() -> None:
        for row in range(1, _ROWS + 1):
            message.key = lambda row=row: b'{"id": %d}' % row
            reader._take(message)
            if ended.is_set():
                return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    deadline = time.monotonic() + _END_S
    while reader.newest < 100:
        assert time.monotonic() < deadline
    try:
        for _ in range(50):
            assert reader.first_above_ns(50) == reader.seen[51]
    finally:
        ended.set()
        thread.join(_END_S)
