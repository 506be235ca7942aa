"""Conditions as values. Pure.

``Compare``, ``IsNull`` and ``Like`` compare; ``Not``, ``AllOf`` and ``AnyOf`` join them. ``in`` is
an ``AnyOf`` of comparisons, as SQL defines it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

Literal = Decimal | str | bool

EQUAL, UNEQUAL = "=", "<>"
DISTINCT, NOT_DISTINCT = "is distinct from", "is not distinct from"
EQUALITY: Final = (EQUAL, UNEQUAL, DISTINCT, NOT_DISTINCT)
BEFORE, AFTER = "before", "after"
"""The images of a change, which a reference may name."""


class Reference(NamedTuple):
    """A column. ``image`` is what stands before its dot, empty without; ``at`` is the character at
    which it begins, from 1; ``is_single`` says that it is of type real."""

    image: str
    name: str
    at: int = 0
    is_single: bool = False

    def __str__(self) -> str:
        return f"{self.image}.{self.name}" if self.image else self.name


class Compare(NamedTuple):
    """``sign`` is an operator as it is shown; ``is_numeric`` where two columns are of numbers,
    which may be published as text."""

    left: Reference
    sign: str
    right: Literal | Reference
    is_numeric: bool = False


class IsNull(NamedTuple):
    of: Reference


class Like(NamedTuple):
    of: Reference
    pattern: str


class Unfit(NamedTuple):
    """A comparison that does not fit the table which an event was written with."""

    reason: str


class Not(NamedTuple):
    of: Condition


class AllOf(NamedTuple):
    """Joined by ``and``."""

    of: tuple[Condition, ...]


class AnyOf(NamedTuple):
    """Joined by ``or``."""

    of: tuple[Condition, ...]


Comparison = Compare | IsNull | Like | Unfit
Condition = Comparison | Not | AllOf | AnyOf


class ConditionError(ValueError):
    """It does not parse, or does not fit the table; ``hint`` says what would."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UndecidedError(ValueError):
    """An event does not say whether it meets the condition."""


def replaced(condition: Condition, by: Callable[[Comparison], Comparison]) -> Condition:
    """With another comparison in place of each."""
    match condition:
        case Not(of):
            return Not(replaced(of, by))
        case AllOf(parts):
            return AllOf(tuple(replaced(one, by) for one in parts))
        case AnyOf(parts):
            return AnyOf(tuple(replaced(one, by) for one in parts))
        case _:
            return by(condition)


def references(condition: Condition) -> Iterator[Reference]:
    """Every column that it names, in their order."""
    match condition:
        case Not(of):
            yield from references(of)
        case AllOf(parts) | AnyOf(parts):
            for one in parts:
                yield from references(one)
        case Compare(left, _, right, _):
            yield left
            if isinstance(right, Reference):
                yield right
        case IsNull(of) | Like(of, _):
            yield of
