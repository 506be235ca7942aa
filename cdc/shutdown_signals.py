"""Ending in good order on SIGTERM and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def told_to_stop(also: Callable[[], None] = lambda: None) -> threading.Event:
    """An event that the first SIGTERM or SIGINT sets; ``also`` is done then, on another thread.
    To be called by the main thread.

    A handler runs in the middle of whatever the main thread does, of ``Event.set`` and ``wait``
    too, and then cannot take the event's lock: a second Ctrl-C could hang the process for good. So
    it only puts a word into a queue made for that, and a thread sets the event.
    """
    stopping, told = threading.Event(), SimpleQueue[None]()

    def stop() -> None:
        told.get()
        stopping.set()
        also()

    threading.Thread(target=stop, name="stopping", daemon=True).start()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: told.put(None))
    return stopping
