"""What a process does from time to time, each as often as it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Chore(NamedTuple):
    """``every_s`` seconds lie between the starts of two times."""

    name: str
    every_s: float
    do: Callable[[], None]


@dataclass(slots=True)
class Schedule:
    """All chores are due at the start."""

    chores: tuple[Chore, ...]
    _due: dict[str, float] = field(default_factory=dict)

    def due(self) -> Iterator[Chore]:
        """Those to be done now, in their order; one counts as done when it is given."""
        for chore in self.chores:
            now = time.monotonic()
            if self._due.get(chore.name, 0.0) <= now:
                self._due[chore.name] = now + chore.every_s
                yield chore

    def soon(self, name: str) -> None:
        """A chore is due again."""
        self._due[name] = 0.0

    def wait(self, name: str, seconds: float) -> None:
        """A chore is not due for so long."""
        self._due[name] = time.monotonic() + seconds
