"""How many rows a command is at, for a process that runs it and is no terminal."""

from __future__ import annotations

from collections.abc import Callable

listener: Callable[[int, int], None] | None = None
"""Called with rows and how many are expected, 0 where nobody knows; from several threads."""


def tell(rows: int, expected: int) -> None:
    if listener is not None:
        listener(rows, expected)
