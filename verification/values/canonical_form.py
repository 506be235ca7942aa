"""One form for a value, wherever it was read, so that equal values are equal bytes. Pure.

The source gives PostgreSQL's text or Python values, stores give what their encoding leaves of
them. Equal are: decimals whatever their scale, NaN and NaN, 0.0 and -0.0, a four-byte float and
its eight-byte image, an instant in any notation of UTC, binary as bytes, hex or base64. Text
(json, uuid, enums, whatever Spark holds as text) is equal when it is the same text. NULL is equal
to NULL and to a field the store left out, and to nothing else. Nested rows are equal when each of
their values is, an array of them when they are in the same order.

A canonical value is made of what ``marshal`` writes in one way only: None, bool, int, float, str,
bytes and tuples of them.
"""

from __future__ import annotations

import marshal
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, TypeAlias

import orjson

from views.types import PgType

Canonical: TypeAlias = Any
Canonicalizer = Callable[[Any], Canonical]
"""From a value that is not None; equal values give equal results of the same type."""

# Version 2 writes no back references, whose presence would depend on object identity.
_MARSHAL = 2
_DIGEST_BYTES = 16
_NUMBERS = {
    "NAN": "NaN",
    "INFINITY": "Infinity",
    "POSITIVE_INFINITY": "Infinity",
    "+INFINITY": "Infinity",
    "-INFINITY": "-Infinity",
    "NEGATIVE_INFINITY": "-Infinity",
}


def canonicalizer(kind: PgType) -> Canonicalizer | None:
    """How values of a column become canonical; None when they are as they come."""
    if kind.name == "array":
        return _array(kind.item)
    if kind.name == "struct":
        return _object(kind)
    return _BY_NAME.get(kind.name)


def row_canonicalizer(
    columns: Sequence[Canonicalizer | None],
) -> Callable[[Iterable[Any]], tuple[Canonical, ...]]:
    """How the values of a whole row become canonical. Most columns are left as they are."""
    changed = [(i, column) for i, column in enumerate(columns) if column is not None]

    def canonical(values: Iterable[Any]) -> tuple[Canonical, ...]:
        row = list(values)
        for i, column in changed:
            if row[i] is not None:
                row[i] = column(row[i])
        return tuple(row)

    return canonical


def packed(values: tuple[Canonical, ...]) -> bytes:
    """Canonical values as bytes, equal for equal values; ``unpacked`` reverses it."""
    return marshal.dumps(values, _MARSHAL)


def unpacked(data: bytes) -> tuple[Canonical, ...]:
    """What ``packed`` was given."""
    values = marshal.loads(data)
    assert isinstance(values, tuple)
    return values


def digest(values: tuple[Canonical, ...]) -> bytes:
    """16 bytes that stand for a row: two rows that differ share them once in 2^128."""
    return blake2b(marshal.dumps(values, _MARSHAL), digest_size=_DIGEST_BYTES).digest()


def _double(value: Any) -> Canonical:
    number = float(value)
    return "NaN" if number != number else number + 0.0  # -0.0 + 0.0 is 0.0


def _single(value: Any) -> Canonical:
    number = float(value)
    try:
        return _double(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:  # no four-byte float, so different from all of them
        return number


def _number(value: Any) -> Canonical:
    text = value if isinstance(value, str) else str(value)
    if special := _NUMBERS.get(text.upper()):
        return special
    if "E" in text or "e" in text:
        text = format(Decimal(text), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _date(value: Any) -> Canonical:
    return value.isoformat() if isinstance(value, date) else str(value).removesuffix("Z")


def _moment(value: Any) -> Canonical:
    if isinstance(value, datetime):
        if value.tzinfo is not None and value.tzinfo is not UTC:
            value = value.astimezone(UTC)
        text = value.isoformat()
    else:
        text = str(value).replace(" ", "T", 1)
    text = text.removesuffix("Z").removesuffix("+00:00").removesuffix("+00")
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _binary(value: Any) -> Canonical:
    if isinstance(value, str):
        return bytes.fromhex(value[2:]) if value.startswith("\\x") else b64decode(value)
    return bytes(value)


def _array(kind: PgType) -> Canonicalizer:
    element = canonicalizer(kind)

    def canonical(value: Any) -> Canonical:
        if isinstance(value, str) and kind.name == "struct":
            value = orjson.loads(value)
        if isinstance(value, list | tuple):
            return tuple(None if item is None else canonical(item) for item in value)
        return value if element is None else element(value)

    return canonical


def _object(kind: PgType) -> Canonicalizer:
    """Of a row that a view nests: its values in the order of its fields. PostgreSQL gives it as
    JSON whose values are texts (``views.spark.nested_rows``), which a boolean and an integer become
    equal to.
    """
    fields = [(name, _of_text(of) or canonicalizer(of)) for name, of in kind.fields]

    def canonical(value: Any) -> Canonical:
        held = orjson.loads(value) if isinstance(value, str) else value
        return tuple(
            one if (one := held.get(name)) is None or of is None else of(one) for name, of in fields
        )

    return canonical


def _of_text(kind: PgType) -> Canonicalizer | None:
    return _boolean if kind.name == "bool" else int if kind.name in _INTEGERS else None


def _boolean(value: Any) -> Canonical:
    return value in ("true", "t") if isinstance(value, str) else bool(value)


def _shape(value: Any) -> Canonical:
    """Of a geometry, which events have as an object: its parts, whatever their order."""
    if isinstance(value, str) and value[:1] == "{":
        value = orjson.loads(value)
    if isinstance(value, dict):
        return tuple((name, _shape(part)) for name, part in sorted(value.items()))
    return _double(value) if isinstance(value, int | float) else value


def _bit(value: Any) -> Canonical:
    """Events have bit(1) as a boolean, which Spark holds as its word."""
    return str(value).lower() if isinstance(value, bool) else value


_SHAPES = ("point", "line", "lseg", "box", "path", "polygon", "circle")
_INTEGERS = ("int2", "int4", "int8", "oid")
_BY_NAME: dict[str, Canonicalizer] = {
    "float4": _single,
    "float8": _double,
    "numeric": _number,
    "date": _date,
    "timestamp": _moment,
    "timestamptz": _moment,
    "bytea": _binary,
    "bit": _bit,
    **dict.fromkeys(_SHAPES, _shape),
}
