"""How often somebody may fail to log in: by address, and by address and user. Pure, but a clock.

Not by user alone: then anybody could lock anybody out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

_FREE: Final = 5
"""So many failures cost nothing; each one more doubles the wait."""
_FIRST_S: Final = 2.0
_LONGEST_S: Final = 900.0
_FORGOTTEN_S: Final = 3_600.0
_MOST: Final = 20_000


class _Failures(NamedTuple):
    times: int
    last_at: float

    @property
    def until(self) -> float:
        over = self.times - _FREE
        wait_s = 0.0 if over < 0 else min(_FIRST_S * 2 ** min(over, 20), _LONGEST_S)
        return self.last_at + wait_s


class LoginLimits:
    """Use from the event loop."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[tuple[str, str], _Failures] = {}

    def wait_s(self, address: str, user: str) -> float:
        """How long the next try has to wait; 0 if it need not."""
        now = self._now()
        found = (self._failures.get(key) for key in _keys(address, user))
        return max((one.until - now for one in found if one is not None), default=0.0)

    def failed(self, address: str, user: str) -> None:
        now = self._now()
        for key in _keys(address, user):
            before = self._failures.pop(key, None)
            if before is None or now - before.last_at > _FORGOTTEN_S:
                before = _Failures(0, now)
            self._failures[key] = _Failures(before.times + 1, now)
        while len(self._failures) > _MOST:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str, user: str) -> None:
        """What ``failed`` counted before this try is taken back; the address keeps its other
        failures: its next guess at another user is still one."""
        self._failures.pop((address, user), None)
        counted = self._failures.get((address, ""))
        if counted is not None:
            self._failures[address, ""] = counted._replace(times=counted.times - 1)


def _keys(address: str, user: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (address, ""), (address, user)
