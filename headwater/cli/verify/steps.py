"""What ``headwater verify`` tells of its waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_LONG_S = 2.0
"""What lasts longer is told to who reads no terminal, too."""


class Steps:
    """Tells what is awaited once that lasts, and again while it does."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._due = clock() + _LONG_S

    def update(self, what: str) -> None:
        """What is done now; called again and again while it lasts."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _LONG_S
        self._console.print(what, soft_wrap=True, markup=False)


@contextmanager
def steps(console: Console) -> Iterator[Any]:
    """A line that says what is being done; off a terminal one for each thing that takes long."""
    if not console.is_terminal:
        yield Steps(console).update
        return
    with console.status("") as status:
        yield status.update
