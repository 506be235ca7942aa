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

    def __init__(
        self, console: Console, view: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._view, self._clock = console, view, clock
        self._due = clock() + _LONG_S

    def update(self, what: str) -> None:
        """What is done now; called again and again while it lasts."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _LONG_S
        self._console.print(of_view(self._view, what), soft_wrap=True, markup=False)


def of_view(view: str, what: str) -> str:
    """What is done, with the view it is done for."""
    return what if f"view {view}" in what else f"{view}: {what}"


@contextmanager
def steps(console: Console, view: str) -> Iterator[Any]:
    """A line that says what is being done; off a terminal one for each thing that takes long."""
    if not console.is_terminal:
        yield Steps(console, view).update
        return
    with console.status("") as status:
        yield lambda what: status.update(of_view(view, what))
