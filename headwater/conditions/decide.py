"""Whether a condition holds, by SQL's three values: true, false, None where it is unknown. Pure."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any as Value
from typing import Final, NamedTuple

from headwater.conditions.condition import (
    AFTER,
    BEFORE,
    DISTINCT,
    EQUAL,
    NOT_DISTINCT,
    UNEQUAL,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    IsNull,
    Like,
    Literal,
    Not,
    Reference,
    UndecidedError,
    Unfit,
)

_SIGNS: Final[Mapping[str, Callable[[Value, Value], bool]]] = {
    EQUAL: operator.eq,
    UNEQUAL: operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INFINITE: Final = {
    "POSITIVE_INFINITY": Decimal("Infinity"),
    "NEGATIVE_INFINITY": Decimal("-Infinity"),
    "Infinity": Decimal("Infinity"),
    "-Infinity": Decimal("-Infinity"),
}
_FLOAT: Final = struct.Struct("f")
_NAN: Final = (1, 0)
"""Above every other number, as in PostgreSQL; those are ``(0, number)``."""


class Image(NamedTuple):
    """A row as an event has it; None where there is no row, whose columns are null then.
    ``unchanged`` are columns that the event left out, ``unknown`` says why nothing is known."""

    row: Mapping[str, Value] | None
    unchanged: Sequence[str] = ()
    unknown: str = ""


class _LeftOut:
    """A value that an update did not repeat: not null, and larger than a short literal."""


_LEFT_OUT: Final = _LeftOut()


def meets(condition: Condition, images: Mapping[str, Image], op: str = "") -> bool | None:
    """``images`` are those that the condition names: ``before`` and ``after``, or the row under "".
    Raises ``UndecidedError`` where the event does not say."""
    match condition:
        case Not(of):
            found = meets(of, images, op)
            return None if found is None else not found
        case AllOf(parts):
            return _joined(parts, images, op, False)
        case AnyOf(parts):
            return _joined(parts, images, op, True)
        case _:
            return _compared(condition, images, op)


def holds(condition: Condition, row: Mapping[str, Value], unchanged: Sequence[str] = ()) -> bool:
    """Whether a row meets a filter. Raises ``UndecidedError``."""
    return meets(condition, {"": Image(row, unchanged)}) is True


def images_of(before: Image, after: Image) -> Mapping[str, Image]:
    """Of a change."""
    return {BEFORE: before, AFTER: after}


def _joined(
    parts: Sequence[Condition], images: Mapping[str, Image], op: str, decisive: bool
) -> bool | None:
    """``decisive`` is the value that one part gives to the whole: true of ``or``. What an event
    does not say of one part matters only where no other one decides."""
    found: bool | None = not decisive
    undecided: UndecidedError | None = None
    for part in parts:
        try:
            one = meets(part, images, op)
        except UndecidedError as error:
            undecided = undecided or error
            continue
        if one is decisive:
            return decisive
        if one is None:
            found = None
    if undecided is not None:
        raise undecided
    return found


def _compared(comparison: Comparison, images: Mapping[str, Image], op: str) -> bool | None:
    if isinstance(comparison, Unfit):
        raise UndecidedError(comparison.reason)
    if isinstance(comparison, IsNull):
        return _value(comparison.of, images, op) is None
    if isinstance(comparison, Like):
        text = _value(comparison.of, images, op)
        if text is _LEFT_OUT:
            raise _unsaid(comparison.of)
        return None if text is None else _like(comparison.pattern, _text(text, comparison.of))
    left, sign, right, is_numeric = comparison
    one = _value(left, images, op)
    other = _value(right, images, op) if isinstance(right, Reference) else right
    if sign in (DISTINCT, NOT_DISTINCT):
        if one is None or other is None:
            return (one is not other) == (sign == DISTINCT)
        sign = UNEQUAL if sign == DISTINCT else EQUAL
    if one is None or other is None:
        return None
    if one is _LEFT_OUT or other is _LEFT_OUT:
        return _large(left, one, sign, other)
    return _SIGNS[sign](*_comparable(left, one, other, is_numeric))


def _value(of: Reference, images: Mapping[str, Image], op: str) -> Value:
    if not of.image and op:
        return op
    image = images[of.image]
    if image.unknown:
        raise UndecidedError(image.unknown)
    if image.row is None:
        return None
    if of.name not in image.row:
        raise UndecidedError(f"the table has no column {of.name} any more")
    if of.name in image.unchanged:
        return _LEFT_OUT
    value = image.row[of.name]
    return single(value) if of.is_single and _is_number(value) else value


def single(number: Decimal | float) -> float:
    """A number as type real has it, which is published by its shortest text. Raises
    ``OverflowError`` for one beyond that."""
    found: float = _FLOAT.unpack(_FLOAT.pack(number))[0]
    return found


def _large(left: Reference, one: Value, sign: str, other: Value) -> bool:
    """A value that was left out is longer than any text that it may be compared with."""
    if one is _LEFT_OUT and isinstance(other, str) and sign in (EQUAL, UNEQUAL):
        return sign == UNEQUAL
    raise _unsaid(left)


def _comparable(
    of: Reference, one: Value, other: Literal | Value, is_numeric: bool
) -> tuple[Value, Value]:
    """Both as Python compares them."""
    if isinstance(one, bool) and isinstance(other, bool):
        return one, other
    if is_numeric or _is_number(one) or _is_number(other):
        first, second = _number(one, of), _number(other, of)
        if isinstance(first[1], float) or isinstance(second[1], float):
            return (first[0], float(first[1])), (second[0], float(second[1]))
        return first, second
    if isinstance(one, str) and isinstance(other, str):
        return one, other
    raise _changed(of)


def _is_number(value: Value) -> bool:
    return isinstance(value, Decimal | int | float) and not isinstance(value, bool)


def _number(value: Value, of: Reference) -> tuple[int, Value]:
    if isinstance(value, str):
        if value.lower() == "nan":
            return _NAN
        try:
            return 0, _INFINITE.get(value) or Decimal(value)
        except InvalidOperation:
            raise _changed(of) from None
    if not _is_number(value):
        raise _changed(of)
    return 0, value


def _text(value: Value, of: Reference) -> str:
    if not isinstance(value, str):
        raise _changed(of)
    return value


class _Stretch(NamedTuple):
    """What stands in a pattern between two ``%``, and how many characters it takes."""

    pattern: re.Pattern[str]
    length: int


def _like(pattern: str, text: str) -> bool:
    """In time that grows with the text, whatever the pattern: each stretch between two ``%`` is
    looked for once, as early as it can stand."""
    first, *rest = _stretches(pattern)
    if not rest:
        return first.pattern.fullmatch(text) is not None
    *middle, last = rest
    found = first.pattern.match(text)
    for one in middle:
        if found is None:
            return False
        found = one.pattern.search(text, found.end())
    begin = len(text) - last.length
    return (
        found is not None
        and begin >= found.end()
        and last.pattern.fullmatch(text, begin) is not None
    )


@lru_cache(256)
def _stretches(pattern: str) -> tuple[_Stretch, ...]:
    stretches: list[list[str]] = [[]]
    for escaped, letter in re.findall(r"(\\)?(.)", pattern, re.DOTALL):
        if letter == "%" and not escaped:
            stretches.append([])
        else:
            any_letter = letter == "_" and not escaped
            stretches[-1].append("." if any_letter else re.escape(letter))
    return tuple(_Stretch(re.compile("".join(one), re.DOTALL), len(one)) for one in stretches)


def _unsaid(of: Reference) -> UndecidedError:
    return UndecidedError(f"an update has left out the value of {of}")


def _changed(of: Reference) -> UndecidedError:
    return UndecidedError(f"the values of {of} have another type than before")
