"""The streams that are open: how many there may be, and which one is cut.

A client has no queue of its own: it reads the ring of its topic, and what it has not read yet is
its backlog. A write to a client that does not read blocks that client's own task and nothing else.
It is cut when its backlog exceeds ``client_buffer_mb``, or one write takes half a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import structlog

from cdc.log_events import LogEvent
from headwater.api.changes.ring import Ring

STALLED_S: Final = 30.0
"""A single write takes no longer."""
_GRACE_S: Final = 2.0
"""A client that reads slowly may still take the event that says why it is cut."""
RETRY_AFTER_S: Final = 5

log = structlog.get_logger("serve")


class Client:
    """One stream. ``number`` is where it reads in the ring, None while it reads elsewhere.
    ``transport`` is that of its connection, if it is known."""

    def __init__(self, user: str, table: str, buffer_bytes: int, transport: Any = None) -> None:
        self.user, self.table = user, table
        self.wake = asyncio.Event()
        self.number: int | None = None
        self.cut_for = ""
        self._buffer_bytes, self._transport = buffer_bytes, transport
        self._sending_since: float | None = None
        self._abort: asyncio.TimerHandle | None = None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """A write is under way."""
        self._sending_since = time.monotonic()
        try:
            yield
        finally:
            self._sending_since = None
            if self._abort is not None:
                self._abort.cancel()
                self._abort = asyncio.get_running_loop().call_later(_GRACE_S, self._end)

    def judge(self, ring: Ring) -> None:
        """Cut it if it does not read and too much waits for it."""
        if self._sending_since is None or self.number is None or self.cut_for:
            return
        if ring.waiting_bytes(self.number) > self._buffer_bytes:
            self.cut("slow")

    def judge_time(self) -> None:
        """Cut it if one write has taken too long, wherever it reads."""
        since = self._sending_since
        if since is not None and not self.cut_for and time.monotonic() - since > STALLED_S:
            self.cut("slow")

    def cut(self, reason: str) -> None:
        """Have it end; its connection is closed hard if it does not take the reason soon."""
        if self.cut_for:
            return
        self.cut_for = reason
        self.wake.set()
        if reason == "slow":
            log.warning(LogEvent.STREAM_CUT, table=self.table, user=self.user, reason=reason)
        if self._sending_since is not None:
            self._abort = asyncio.get_running_loop().call_later(_GRACE_S, self._end)

    def ended(self) -> None:
        """The stream is over."""
        if self._abort is not None:
            self._abort.cancel()

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Clients:
    """All of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: set[Client] = set()
        self.cut: dict[str, int] = {"slow": 0, "stopping": 0, "access": 0, "failed": 0}
        self.events = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def is_full(self) -> bool:
        return len(self._clients) >= self._most

    def add(self, client: Client) -> None:
        assert not self.is_full
        self._clients.add(client)

    def remove(self, client: Client) -> None:
        if client not in self._clients:
            return
        client.ended()
        self._clients.discard(client)
        if client.cut_for:
            self.cut[client.cut_for] = self.cut.get(client.cut_for, 0) + 1

    def judge_time(self) -> None:
        for client in list(self._clients):
            client.judge_time()

    def stop(self) -> None:
        """The server stops: each gets its place, and connects again."""
        for client in list(self._clients):
            client.cut("stopping")
