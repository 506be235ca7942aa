"""A wait over HTTP whose request ends before its thread does."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cdc.config import Config, parse_config
from headwater.api.views import waits as module
from headwater.view_client import Reached


def configured() -> Config:
    document: dict[str, Any] = {
        "source": {"name": "shop", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:9092"},
        "serve": {"max_waits": 2},
    }
    return parse_config(document, {}, Path("/nowhere"))


def test_nobody_else_gets_a_client_that_a_thread_still_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    going_on, begun = threading.Event(), threading.Semaphore(0)
    in_use: set[int] = set()

    class Slow:
        """Connections are for one thread at a time."""

        def __init__(self, _: Config) -> None:
            pass

        def wait(self, view: str, **_: object) -> Reached:
            assert id(self) not in in_use, f"two threads wait for {view}"
            in_use.add(id(self))
            begun.release()
            assert going_on.wait(30)
            in_use.discard(id(self))
            return Reached(16, 0.0, {})

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, "Views", Slow)

    async def waited() -> bool:
        waits = module.Waits(configured())
        given_up = asyncio.create_task(waits.wait("items", "", 30))
        await asyncio.to_thread(begun.acquire, timeout=30)
        given_up.cancel()
        with suppress(asyncio.CancelledError):
            await given_up
        other = asyncio.create_task(waits.wait("items", "", 30))
        await asyncio.to_thread(begun.acquire, timeout=30)
        going_on.set()
        found = await other
        waits.close()
        return bool(found["reached"])

    assert asyncio.run(waited())
