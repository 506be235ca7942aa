"""Values as Avro's binary encoding, by their Connect schema. Pure.

A value is what is read of the JSON of an event in a form with schemas: bytes are base64,
and numbers that are not finite are text.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from cdc.events.formats.json_values import json_value
from cdc.events.formats.varints import zigzag
from cdc.events.schemas.schema import Schema

Write = Callable[[Any], bytes]

_FLOAT: Final = Struct("<f").pack
_DOUBLE: Final = Struct("<d").pack
NULL, PRESENT = b"\0", b"\2"
"""Which branch of ``["null", type]`` follows."""
_BOOLEANS: Final = {False: b"\0", True: b"\1"}


def avro_writer(schema: Schema) -> Callable[[bytes], bytes]:
    """From JSON to Avro."""
    write = value_writer(schema)
    return lambda text: write(json_value(text))


def value_writer(schema: Schema) -> Write:
    """The writer of values that are read already."""
    write = _required(schema)
    if not schema.optional:
        return write
    null, present = (NULL, PRESENT) if schema.default is None else (PRESENT, NULL)
    return lambda value: null if value is None else present + write(value)


def octets(value: bytes) -> bytes:
    """Bytes, and text."""
    return zigzag(len(value)) + value


def float32(value: float | str) -> bytes:
    """A number that only a double holds would be no float: it is rounded as the server does."""
    number = float(value)
    try:
        return _FLOAT(number)
    except OverflowError:
        return _FLOAT(float("inf") if number > 0 else float("-inf"))


def float64(value: float | str) -> bytes:
    """A decimal may have more digits than any double: it is infinite then."""
    try:
        return _DOUBLE(float(value))
    except OverflowError:
        return _DOUBLE(float("-inf") if str(value).startswith("-") else float("inf"))


def _required(schema: Schema) -> Write:
    if schema.type == "struct":
        return _struct(schema)
    if schema.items is not None:
        return _array(value_writer(schema.items))
    if schema.keys is not None and schema.values is not None:
        return _map(value_writer(schema.keys), value_writer(schema.values))
    return _SIMPLE[schema.type]


def _struct(schema: Schema) -> Write:
    fields = [(name, value_writer(of)) for name, of in schema.fields]
    return lambda value: b"".join([write(value[name]) for name, write in fields])


def _array(item: Write) -> Write:
    def write(values: list[Any]) -> bytes:
        if not values:
            return b"\0"
        return b"".join((zigzag(len(values)), *map(item, values), b"\0"))

    return write


def _map(key: Write, value: Write) -> Write:
    """An object, or an array of pairs where keys are no text."""

    def write(given: Any) -> bytes:
        pairs = given.items() if isinstance(given, dict) else given
        items = [key(name) + value(of) for name, of in pairs]
        return b"".join((zigzag(len(items)), *items, b"\0")) if items else b"\0"

    return write


_SIMPLE: Final[dict[str, Write]] = {
    "boolean": _BOOLEANS.__getitem__,
    "int16": zigzag,
    "int32": zigzag,
    "int64": zigzag,
    "float": float32,
    "double": float64,
    "string": lambda value: octets(value.encode()),
    "bytes": lambda value: octets(a2b_base64(value)),
}
