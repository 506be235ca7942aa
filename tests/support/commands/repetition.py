"""What happens to a source again and again, while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(change: Callable[[], None], every_s: float = 1.0) -> Iterator[None]:
    """A change again and again, each second. A test whose change raises fails."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            change()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
