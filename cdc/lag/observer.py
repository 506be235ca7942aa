"""A thread that looks again and again, and what it saw last, for whoever asks meanwhile.

A scrape must not wait for a server that does not answer, and must not cost what it measures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

import structlog

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent

EVERY_S: Final = 1.0
"""From look to look, if a look is short."""
STALE_S: Final = 15.0
"""What was seen longer ago says nothing of now, unless looks are far apart."""
_REST: Final = 19
"""A look of a hundred views takes a while: the rest after it is so many times its CPU."""

T = TypeVar("T")
log = structlog.get_logger("metrics")


class Seen(NamedTuple, Generic[T]):
    """What a look found, and when it ended, in seconds since 1970."""

    found: T
    at_s: float


class Observer(Generic[T]):
    """``look`` is called on the thread, ``close`` at its end, and after a look that failed: the
    next one connects again. The rest after a look is ``rest`` times what it took by ``clock``, in
    seconds: of this thread's CPU, unless servers work much for it."""

    def __init__(
        self,
        look: Callable[[], T],
        close: Callable[[], None],
        every_s: float = EVERY_S,
        rest: int = _REST,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._rest, self._clock = rest, clock
        self._look, self._close, self._every_s = look, close, every_s
        self._ending = threading.Event()
        self._seen: Seen[T] | None = None
        self._stale_s = STALE_S
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    @property
    def seen(self) -> Seen[T] | None:
        """The last look; None before the first."""
        return self._seen

    @property
    def fresh(self) -> Seen[T] | None:
        """The last look, unless it is too old to say something of now: until the next two are
        overdue, each as long and a rest after the one before."""
        seen = self._seen
        return seen if seen is not None and time.time() - seen.at_s <= self._stale_s else None

    @property
    def failure(self) -> str:
        """Why the last look failed, "" if it did not; of a bug, which may quote what it met, its
        kind alone."""
        return self._failure

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Ask it to end; a look under way is not waited for."""
        self._ending.set()

    def _run(self) -> None:
        wait_s, failed = 0.0, ""
        while not self._ending.wait(wait_s):
            began, began_s = self._clock(), time.time()
            try:
                found = self._look()
                wait_s, failed, ended_s = self._rest_s(began), "", time.time()
                self._stale_s = STALE_S + 2 * (wait_s + max(0.0, ended_s - began_s))
                self._seen, self._failure = Seen(found, ended_s), ""
            except Exception as error:  # whatever it is, the next look may succeed
                told = str(error) if isinstance(error, HeadwaterError) else repr(error)
                self._failure = (
                    str(error) if isinstance(error, HeadwaterError) else type(error).__name__
                )
                if failed != type(error).__name__:
                    log.warning(LogEvent.NOT_MEASURED, reason=told)
                failed = type(error).__name__
                self._close()
                wait_s = min(self._rest_s(began), STALE_S)
        self._close()

    def _rest_s(self, began: float) -> float:
        return max(self._every_s, self._rest * (self._clock() - began))
