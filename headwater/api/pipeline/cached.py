"""One answer for all who ask within some seconds, asked for by one of them at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Kept(NamedTuple, Generic[T]):
    """An answer, and when it was given, in seconds since 1970."""

    found: T
    at_s: float


class Cached(Generic[T]):
    """Use from the event loop. ``ask`` blocks, and is called on a thread of ``threads``. A question
    that failed is asked again after ``fresh_s``, too, or by whom it takes longer."""

    def __init__(
        self,
        ask: Callable[[], T],
        fresh_s: float,
        threads: Executor,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._fresh_s, self._threads, self._now = ask, fresh_s, threads, now
        self._kept: Kept[T] | None = None
        self._asked_at: float | None = None
        self._asking: asyncio.Future[Kept[T]] | None = None

    async def get(self) -> T:
        """The answer, at most ``fresh_s`` old. Raises what ``ask`` raises."""
        if self._kept is None or self._is_due:
            return (await asyncio.shield(self._question())).found
        return self._kept.found

    def last(self) -> Kept[T] | None:
        """The last answer, however old; it is asked for again where it is due."""
        if self._is_due and self._asking is None:
            self._question().add_done_callback(_heard)
        return self._kept

    def forget(self) -> None:
        """What was answered is no longer so."""
        self._asked_at = None

    @property
    def _is_due(self) -> bool:
        return self._asked_at is None or self._now() - self._asked_at >= self._fresh_s

    def _question(self) -> asyncio.Future[Kept[T]]:
        if self._asking is None:
            self._asked_at = self._now()
            self._asking = asyncio.ensure_future(self._answered())
        return self._asking

    async def _answered(self) -> Kept[T]:
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, self._ask)
            self._kept = Kept(found, time.time())
            return self._kept
        except BaseException:
            self._kept = None
            raise
        finally:
            self._asking = None


def _heard(asked: asyncio.Future[Kept[T]]) -> None:
    with suppress(BaseException):
        asked.exception()
