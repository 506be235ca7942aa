"""One question for all who ask, whatever their number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cdc.errors import RetryableError
from headwater.api.pipeline.cached import Cached


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as found:
        yield found


def test_who_asks_at_the_same_time_shares_a_question(threads: ThreadPoolExecutor) -> None:
    asked, now, begun, go_on = [], 0.0, threading.Event(), threading.Event()

    def ask() -> int:
        asked.append(now)
        begun.set()
        go_on.wait(10)
        return len(asked)

    async def run() -> None:
        nonlocal now
        cached = Cached(ask, 5.0, threads, lambda: now)
        waiting = [asyncio.create_task(cached.get()) for _ in range(50)]
        assert await asyncio.to_thread(begun.wait, 10)
        waiting[0].cancel()  # who goes away takes the question from nobody
        go_on.set()
        assert await asyncio.gather(*waiting[1:]) == [1] * 49
        now = 4.9
        assert await cached.get() == 1
        now = 5.1
        assert await cached.get() == 2
        cached.forget()
        assert await cached.get() == 3

    asyncio.run(run())


def test_a_fault_is_told_and_not_kept(threads: ThreadPoolExecutor) -> None:
    away = True

    def ask() -> str:
        if away:
            raise RetryableError("Kafka does not answer")
        return "there"

    async def run() -> None:
        nonlocal away
        cached = Cached(ask, 5.0, threads)
        with pytest.raises(RetryableError):
            await cached.get()
        away = False
        assert await cached.get() == "there"
        last = cached.last()
        assert last is not None
        assert last.found == "there"

    asyncio.run(run())


def test_the_last_answer_is_there_at_once_and_asked_for_again(threads: ThreadPoolExecutor) -> None:
    async def run() -> None:
        answered = threading.Event()

        def ask() -> int:
            answered.set()
            return 1

        cached = Cached(ask, 5.0, threads)
        assert cached.last() is None
        await asyncio.to_thread(answered.wait, 10)
        assert await cached.get() == 1

    asyncio.run(run())
