"""Values of a column, from the form that ``[events]`` chose into the default one. Pure.

The inverse of what ``cdc.events.values`` does for the other forms, as far as a value can be got
back: what a form has lost is told by ``loss``, and nobody reads such a column.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64decode
from binascii import unhexlify
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from cdc.events.form import Decimals, Form, Times
from cdc.events.readers.times import (
    INFINITY,
    MINUS_INFINITY,
    date_text,
    time_text,
    timestamp_text,
)
from cdc.events.values.decimals import LONGEST

Reader = Callable[[Any], Any]
"""From a JSON value that is not null to the value of the default form. Raises ``ValueError``,
``TypeError`` or ``KeyError`` for what is not of the form."""

_MS, _US, _NS = 1_000, 1_000_000, 1_000_000_000
_MS_DIGITS: Final = 3
_US_DIGITS: Final = 6
EXACT_DIGITS: Final = 15
"""Of decimal digits a double keeps so many, whichever they are."""
_COMMON_DIGITS: Final = 2
_WIDE: Final = Context(prec=2 * LONGEST)
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
_FLOAT_WORDS: Final = {
    "NaN": "NAN",
    "Infinity": "POSITIVE_INFINITY",
    "-Infinity": "NEGATIVE_INFINITY",
}
_TEXT_KINDS: Final = frozenset({"enum", "composite", "range", "multirange"})


class Digits(float):
    """A JSON number with a point or an exponent, as it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Digits:
        made = super().__new__(cls, text)
        made.text = text
        return made


class ColumnKind(NamedTuple):
    """What decides how a column's values are written, as ``<source>.__schemas`` tells it.
    ``element`` is the base of an array's elements, ``element_typmod`` that of their domain, if they
    have one; ``treatment`` makes values text."""

    base: str
    kind: str = "base"
    typmod: int = -1
    element: str | None = None
    treatment: str = ""
    nullable: bool = True
    element_typmod: int = -1

    @property
    def item_typmod(self) -> int:
        """Of an array's elements, which are of a domain with its own, or as the column says."""
        return self.element_typmod if self.element_typmod != -1 else self.typmod


def reader(form: Form, column: ColumnKind) -> Reader | None:
    """What reads the values of a column; None where they are in the default form as they are. Of
    one with a ``loss``, which nobody reads, there are none."""
    if column.treatment or column.kind in _TEXT_KINDS:
        return None
    if loss(form, column):
        return nothing
    if column.element is None:
        return _of_base(form, column.base, column.typmod)
    item = _of_base(form, column.element, column.item_typmod)
    return None if item is None else _array_of(item)


def nothing(_: Any) -> None:
    """Of a column that nobody reads."""


def loss(form: Form, column: ColumnKind) -> str:
    """Why the values of a column cannot be got back exactly; empty where they can be."""
    if column.treatment or column.kind in _TEXT_KINDS:
        return ""
    base = column.element or column.base
    typmod = column.item_typmod if column.element else column.typmod
    if form.is_binary and form.decimals == "double" and exceeds_double(base, typmod):
        return f"decimal.handling.mode = double keeps {EXACT_DIGITS} digits in {form.format}"
    if form.decimals == "double" and not form.is_binary and _exceeds_json(base, typmod):
        return f"decimal.handling.mode = double rounds numbers of more than {LONGEST} characters"
    if base == "interval" and form.intervals == "numeric":
        return "interval.handling.mode = numeric makes months and days microseconds"
    if base == "numeric" and form.decimals == "precise" and typmod < 0:
        return "decimal.handling.mode = precise leaves out closing zeros of a numeric without scale"
    if base in ("time", "timestamp") and form.times == "connect":
        digits = typmod if typmod >= 0 else _US_DIGITS
        if digits > _MS_DIGITS:
            return "time.precision.mode = connect leaves no more than milliseconds"
    if base == "timestamp" and form.times == "nanoseconds":
        return "time.precision.mode = nanoseconds has no timestamps before 1677 and after 2262"
    return ""


def may_be_null(form: Form, column: ColumnKind) -> bool:
    """Whether null stands for values that the form has nothing for: a numeric's NaN and infinity,
    timestamps beyond 64 bits. Where the column is NOT NULL, that can be told."""
    if column.treatment or column.kind in _TEXT_KINDS or column.element is not None:
        return False
    if column.base == "numeric":
        return form.decimals == "precise"
    return column.base == "timestamp" and form.times != "isostring"


def _of_base(form: Form, base: str, typmod: int) -> Reader | None:
    if base in ("date", "time", "timestamp"):
        return _time(form.times, base, typmod)
    if base in ("numeric", "money"):
        return _decimal(form.decimals, base, typmod)
    if base == "bytea":
        return _BINARY.get(form.binaries)
    if base == "hstore" and form.hstores == "map":
        return _map
    return None


def _array_of(item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):  # with other bounds it is PostgreSQL's text
            return value
        return [None if one is None else read_item(one) for one in value]

    def read_item(one: Any) -> Any:
        return read(one) if isinstance(one, list) else item(one)

    return read


def _time(mode: Times, base: str, typmod: int) -> Reader | None:
    if mode == "isostring":
        return None
    if base == "date":
        return _finite(date_text, _INT32)
    unit = _unit(mode, base, typmod)
    if base == "time":
        return lambda value: time_text(value, unit)
    return _finite(lambda value: timestamp_text(value, unit), _INT64)


def _unit(mode: Times, base: str, typmod: int) -> int:
    """How many of the numbers make a second."""
    if mode in ("microseconds", "nanoseconds"):
        return _US if mode == "microseconds" else _NS
    if mode == "connect":
        return _MS
    if mode == "adaptive_time_microseconds" and base == "time":
        return _US
    return _MS if 0 <= typmod <= _MS_DIGITS else _US


def _finite(read: Reader, largest: int) -> Reader:
    """The largest and the smallest number are infinity."""
    words = {largest: INFINITY, -largest - 1: MINUS_INFINITY}
    return lambda value: words.get(value) or read(value)


def _decimal(mode: Decimals, base: str, typmod: int) -> Reader | None:
    if mode == "string":
        return None
    if mode == "double":
        if base == "numeric" and typmod < 0:
            return _of_any_length
        return _number if base == "money" else _of_scale(scale_of(base, typmod))
    if base == "numeric" and typmod < 0:
        return lambda value: _unscaled(value["value"], value["scale"])
    scale = scale_of(base, typmod)
    return lambda value: _unscaled(value, scale)


def precision_of(typmod: int) -> int:
    """Of a ``numeric(precision, scale)``."""
    return (typmod - 4) >> 16 & 0xFFFF


def exceeds_double(base: str, typmod: int) -> bool:
    """Whether a decimal may have more digits than a double keeps."""
    if base == "numeric":
        return typmod < 0 or precision_of(typmod) > EXACT_DIGITS
    return base == "money"


def _exceeds_json(base: str, typmod: int) -> bool:
    """Whether a decimal may be longer than a number of JSON is written with all of its digits. One
    without a precision may, too: of that each value says whether it is (``_of_any_length``)."""
    if base != "numeric" or typmod < 0:
        return False
    scale = scale_of(base, typmod)
    fraction = len(".") + scale if scale > 0 else 0
    return len("-") + max(precision_of(typmod) - scale, 1) + fraction > LONGEST


def scale_of(base: str, typmod: int) -> int:
    """The digits behind the point."""
    if base == "money":
        return typmod if typmod >= 0 else _COMMON_DIGITS
    return ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400


def _unscaled(value: Any, scale: Any) -> str:
    """From the bytes of a big-endian integer, which is so many times ten as large."""
    number = int.from_bytes(b64decode(value, validate=True), "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return f"{Decimal((int(number < 0), digits, -scale)):f}"


def _number(value: Any) -> str:
    """With the digits that stand there; what is not finite is a word."""
    if isinstance(value, str):
        return _FLOAT_WORDS[value]
    return value.text if isinstance(value, Digits) else str(value)


def _of_any_length(value: Any) -> str:
    """PostgreSQL writes no exponent: what has one is rounded (``double_encoder``)."""
    text = _number(value)
    if "e" in text:
        raise ValueError("a number of more digits than the form has")
    return text


def _of_scale(scale: int) -> Reader:
    """A double that was no text has digits of its own: as many as the column has are exact."""
    unit = Decimal((0, (1,), -scale))

    def read(value: Any) -> str:
        if isinstance(value, (str, Digits)):
            return _number(value)
        return f"{Decimal(repr(value)).quantize(unit, context=_WIDE):f}"

    return read


def _base64(value: Any) -> str:
    return b64encode(value).decode()


_BINARY: Final[dict[str, Reader]] = {
    "hex": lambda value: _base64(unhexlify(value)),
    "base64-url-safe": lambda value: _base64(urlsafe_b64decode(value + "=" * (-len(value) % 4))),
}


def _map(value: Any) -> str:
    """A JSON object in a JSON string."""
    if not isinstance(value, dict):
        raise TypeError(f"a {value.__class__.__name__} in place of an object")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
