"""An event's JSON in Protobuf's binary encoding, by the messages of its schema. Pure.

Fields stand in the order of their numbers, and none that has its default stands there unless it is
``optional``: the bytes are those of Protobuf's own libraries.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from cdc.events.formats.avro_writer import float32, float64
from cdc.events.formats.json_values import Loads, json_value
from cdc.events.formats.protobuf_messages import (
    ARRAY,
    ENTRIES,
    ITEMS,
    KEY,
    MAP,
    VALUE,
    Field,
    Message,
)
from cdc.events.formats.protobuf_types import TYPES
from cdc.events.formats.varints import varint

Write = Callable[[Any], bytes]
"""From a value of JSON to what stands behind its tag."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""How values are delimited."""
WIRE: Final = {
    **dict.fromkeys(("bool", "int32", "int64", "uint32"), VARINT),
    "double": FIXED64,
    "float": FIXED32,
}
"""Of scalars; all else has its length in front."""
_MASK: Final = (1 << 64) - 1
_TAG_BITS: Final = 3
_REMEMBERED, _SHORT = 4096, 32
"""Much of an event stands in others, too: the names in ``source``, the times of a transaction."""


def protobuf_writer(message: Message, loads: Loads = json.loads) -> Callable[[bytes], bytes]:
    """From JSON, which ``loads`` reads, to Protobuf. What that gives raises ``TypeError`` for null
    in a field that would take it for its default."""
    write = _message(message)
    required = [
        field.original
        for field in message.fields
        if field.type in _SCALARS and not field.optional and not field.repeated
    ]

    def written(text: bytes) -> bytes:
        value = json_value(text, loads)
        for name in required:
            if value[name] is None:
                raise TypeError(f"{name} is required, and null")
        return write(value)

    return written


def _message(message: Message) -> Write:
    fields = [
        (field.original, _field(field))
        for field in sorted(message.fields, key=lambda field: field.number)
    ]

    def write(value: Any) -> bytes:
        return b"".join([put(found) for name, put in fields if (found := value[name]) is not None])

    return write


def _field(field: Field) -> Write:
    """With its tag; of a value that is not null."""
    tag = varint(field.number << _TAG_BITS | WIRE.get(field.type, LENGTH))
    write = _value(field)
    if field.repeated:
        if field.type in WIRE:
            packed = varint(field.number << _TAG_BITS | LENGTH)
            return lambda values: packed + octets(b"".join(map(write, values))) if values else b""
        return lambda values: b"".join([tag + write(one) for one in values])
    if field.optional or field.type not in _SCALARS:
        return lambda value: tag + write(value)
    default = write(DEFAULTS[field.type])

    def put(value: Any) -> bytes:
        made = write(value)
        return b"" if made == default else tag + made

    return put


def _value(field: Field) -> Write:
    if (scalar := _SCALARS.get(field.type)) is not None:
        return scalar
    if (known := TYPES.get(field.type)) is not None:
        of_known, options = _message(known.message), dict(field.options)
        return lambda value: octets(of_known(known.fields(value, options)))
    assert field.message is not None, field.type
    write = _message(field.message)
    if field.wraps == ARRAY:
        return lambda values: octets(write({ITEMS: [{VALUE: one} for one in values]}))
    if field.wraps == MAP:
        return lambda given: octets(write({ENTRIES: list(_entries(given))}))
    return lambda value: octets(write(value))


def _entries(given: Any) -> Iterable[dict[str, Any]]:
    """Of an object, or of an array of pairs where keys are no text."""
    pairs = given.items() if isinstance(given, dict) else given
    return ({KEY: key, VALUE: value} for key, value in pairs)


def octets(value: bytes) -> bytes:
    """With their number in front."""
    return varint(len(value)) + value


@lru_cache(_REMEMBERED)
def _number(value: int) -> bytes:
    return varint(value & _MASK)


def _text(value: str) -> bytes:
    return _short_text(value) if len(value) <= _SHORT else octets(value.encode())


@lru_cache(_REMEMBERED)
def _short_text(value: str) -> bytes:
    return octets(value.encode())


_SCALARS: Final[dict[str, Write]] = {
    "bool": lambda value: b"\1" if value else b"\0",
    "int32": _number,
    "int64": _number,
    "uint32": _number,
    "float": float32,
    "double": float64,
    "string": _text,
    "bytes": lambda value: octets(a2b_base64(value)),
}
DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "int32": 0,
    "int64": 0,
    "uint32": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": "",
}
"""What a scalar is that does not stand in a message, as JSON has it."""
