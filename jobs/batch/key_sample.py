"""A few values that stand for many: those of evenly spread ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

LOGGED: Final = 20
"""Of a log line: each twentieth part, the ends among them."""

T = TypeVar("T", int, float)


def spread(values: Sequence[T], most: int) -> list[T]:
    """At most so many of these in their order, the least and the greatest among them."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    last = len(ordered) - 1
    return [ordered[rank * last // (most - 1)] for rank in range(most)]
