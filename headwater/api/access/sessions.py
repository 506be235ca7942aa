"""Who has logged in: sessions in memory, known by the hash of what a cookie holds."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from headwater.api.access.principal import Principal

COOKIE: Final = "headwater_session"
_MOST: Final = 10_000
"""The oldest is ended for one more."""


class _Session(NamedTuple):
    name: str
    proof: str
    ends_at: float


class Sessions:
    """Use from the event loop. ``user`` gives a user as the file has it now."""

    def __init__(
        self,
        length_s: float,
        user: Callable[[str], Principal | None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.length_s = length_s
        self._user, self._now = user, now
        self._sessions: dict[str, _Session] = {}

    def begin(self, principal: Principal) -> str:
        """What the cookie is to hold."""
        secret = secrets.token_urlsafe(32)
        if len(self._sessions) >= _MOST:
            del self._sessions[next(iter(self._sessions))]
        ends_at = self._now() + self.length_s
        self._sessions[_hash(secret)] = _Session(principal.name, principal.proof, ends_at)
        return secret

    def end(self, secret: str) -> None:
        self._sessions.pop(_hash(secret), None)

    def principal(self, secret: str) -> Principal | None:
        """Of a session that has not ended, whose user is still one and has the same password."""
        session = self._sessions.get(_hash(secret))
        if session is None:
            return None
        user = self._user(session.name)
        if self._now() >= session.ends_at or user is None or user.proof != session.proof:
            self.end(secret)
            return None
        return user


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
