"""One reader of a log for all of its clients: a thread reads, the event loop hands on.

The thread never waits for a client: it fills the ring, and who is too slow is left behind. It waits
only for the event loop itself. A log without clients is read on for a minute, then let go of.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from cdc.config import Config
from cdc.errors import HeadwaterError, LogError
from cdc.log_events import LogEvent
from headwater.api.changes.clients import Client
from headwater.api.changes.log_reader import GoneError, Log
from headwater.api.changes.origin import Origin
from headwater.api.changes.ring import Entry, Ring

_WAIT_S: Final = 0.5
_LOOK_S: Final = 5.0
"""From look to look whether the topic is still the same."""
_LINGER_S: Final = 60.0
_BEHIND: Final = 20_000
"""A hub begins where its first client goes on, unless that is more records back."""
_AHEAD: Final = 4
"""Reads that the event loop may owe."""

log = structlog.get_logger("serve")


class Hub:
    """One log. But for its thread, use from the event loop."""

    def __init__(self, config: Config, origin: Origin, now: Log, begin: Sequence[int]) -> None:
        self.topic_id = now.topic_id
        self.ring = Ring(dict(enumerate(begin)), config.serve.ring_mb << 20)
        self.failed: HeadwaterError | None = None
        self.idle_since: float | None = None
        self._origin = origin
        self._clients: set[Client] = set()
        self._loop = asyncio.get_running_loop()
        self._ending = threading.Event()
        self._owed = threading.Semaphore(_AHEAD)
        self._thread = threading.Thread(target=self._run, name=f"hub {now.topic}", daemon=True)
        self._thread.start()

    @property
    def is_followed(self) -> bool:
        return bool(self._clients)

    @contextmanager
    def followed(self, client: Client) -> Iterator[None]:
        """``client`` is woken whenever something came, or the hub has failed."""
        self._clients.add(client)
        self.idle_since = None
        try:
            yield
        finally:
            self._clients.discard(client)
            if not self._clients:
                self.idle_since = time.monotonic()

    def close(self) -> None:
        """The thread ends by itself."""
        self._ending.set()
        self._owed.release()

    def _run(self) -> None:
        """The thread."""
        at, reader = dict(self.ring.high), self._origin.reader()
        try:
            while not self._ending.is_set():
                entries, reached = reader.read(at, _WAIT_S)
                if reached != at:
                    self._owed.acquire()
                    self._call(self._add, entries, reached)
                at = reached
        except HeadwaterError as error:
            self._call(self.fail, error)
        finally:
            reader.close()

    def _call(self, what: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the loop has ended
            self._ending.set()

    async def look(self) -> None:
        """Fail if there is another log by now, or one of fewer records than were read. Raises what
        asking raises. What retention deletes the reader finds by itself."""
        before = dict(self.ring.high)
        try:
            now = await self._origin.now()
            kept = [max(at, now.begin[p]) for p, at in before.items() if p < len(now.begin)]
            now.refuse(self.topic_id, kept)
        except GoneError as error:
            self.fail(error)

    def _add(self, entries: Sequence[Entry], high: Mapping[int, int]) -> None:
        self._owed.release()
        self.ring.add(entries, high)
        for client in self._clients:
            client.wake.set()
            client.judge(self.ring)

    def fail(self, error: HeadwaterError) -> None:
        """Its clients end with this."""
        self.failed = error
        for client in self._clients:
            client.wake.set()


class Hubs:
    """Of all logs that are followed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._hubs: dict[str, Hub] = {}

    async def watch(self) -> None:
        """Look for ever whether logs are still the same."""
        away = False
        while True:
            await asyncio.sleep(_LOOK_S)
            for topic, hub in list(self._hubs.items()):
                try:
                    await hub.look()
                    away = False
                except LogError as error:
                    hub.fail(GoneError("recreated", error.message))
                except HeadwaterError as error:
                    if not away:
                        log.warning(LogEvent.TOPIC_NOT_READ, topic=topic, error=str(error))
                    away = True

    def of(self, origin: Origin, now: Log, offsets: Sequence[int]) -> Hub:
        """The hub of a log for a client that goes on at ``offsets``, which ``now`` holds."""
        self._let_go()
        hub = self._hubs.get(now.topic)
        if hub is not None and (hub.failed is not None or hub.topic_id != now.topic_id):
            hub.close()
            hub = None
        if hub is None:
            is_near = sum(now.end) - sum(offsets) <= _BEHIND
            hub = Hub(self._config, origin, now, offsets if is_near else now.end)
            self._hubs[now.topic] = hub
        return hub

    def close(self) -> None:
        for hub in self._hubs.values():
            hub.close()
        self._hubs = {}

    def _let_go(self) -> None:
        now = time.monotonic()
        for topic, hub in list(self._hubs.items()):
            idle = not hub.is_followed and hub.idle_since is not None
            if idle and now - (hub.idle_since or now) > _LINGER_S:
                hub.close()
                del self._hubs[topic]
