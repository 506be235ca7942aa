"""Heartbeats: that a change goes all the way from the source to Kafka, and when it last did. Pure.

Capture writes a transactional logical message into the source's WAL and meets it again in the
stream. It becomes no event. When everything before it is durable in Kafka, the time at which it was
written goes into the progress mark: nothing but a working stream moves it.

Transactional, because only a commit makes a server whose WAL is otherwise idle decode up to there
and let go of what lies before.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

HEARTBEAT: Final = "headwater.heartbeat"
"""Prefix of the logical message; its content is when it was written, in ms since 1970, and behind a
space the nonce of the run that wrote it: any role may write messages with this prefix."""
_DIGITS: Final = 15
_AWAITED: Final = 1_000


class Heartbeat(NamedTuple):
    """One that came through the stream."""

    commit_lsn: int
    written_ms: int


def heartbeat(commit_lsn: int, content: bytes, nonce: str) -> Heartbeat | None:
    """The heartbeat in a message with the prefix ``HEARTBEAT``; None if this run did not write
    it."""
    written, _, told = content.partition(b" ")
    ours = told == nonce.encode() and written.isdigit() and len(written) <= _DIGITS
    return Heartbeat(commit_lsn, int(written)) if ours else None


class Pulse:
    """Which heartbeat is the newest that is durable."""

    def __init__(self, durable_ms: int | None) -> None:
        self.durable_ms = durable_ms
        self._newest = Heartbeat(0, 0)
        # Bounded: while Kafka is away for hours the oldest of them need not be told apart.
        self._awaited: deque[Heartbeat] = deque(maxlen=_AWAITED)

    def seen(self, beat: Heartbeat | None) -> None:
        """The newest that the stream brought; again and again the same is one."""
        if beat is not None and beat.commit_lsn > self._newest.commit_lsn:
            self._newest = beat
            self._awaited.append(beat)

    def settle(self, durable: int) -> int | None:
        """When the newest heartbeat below the end LSN ``durable`` was written."""
        while self._awaited and self._awaited[0].commit_lsn < durable:
            self.durable_ms = self._awaited.popleft().written_ms
        return self.durable_ms
