"""Protobuf's binary encoding, by its schema, as the JSON that it was made of. Pure."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from cdc.events.formats.avro_reader import finite, shortest
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
from cdc.events.formats.protobuf_text import parsed_file
from cdc.events.formats.protobuf_types import TYPES
from cdc.events.formats.protobuf_writer import DEFAULTS, LENGTH, WIRE
from cdc.events.formats.varints import read_varint

Read = Callable[[bytes, int], tuple[Any, int]]
"""From data and a place in it to a value and where the next tag begins."""
_Slot = tuple[str, Read, bool]
"""Which field, what reads its value, and whether it is one of several."""

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_FIRST: Final = b"\0"
"""Which message of a schema it is: the first one."""
_TAG_BITS, _SIGN_BIT = 3, 1 << 63


def protobuf_reader(document: str) -> Callable[[bytes], Any]:
    """From Protobuf, with the index of its message in front, to a value of JSON. Raises
    ``ValueError`` for what is not of the schema."""
    read = _message(parsed_file(document).message)

    def value(data: bytes) -> Any:
        if not data.startswith(_FIRST):
            raise ValueError("no record of the first message of its schema")
        try:
            return read(data[1:])
        except (IndexError, KeyError, StructError) as error:
            raise ValueError(f"no record of its schema: {error}") from None

    return value


def _message(message: Message) -> Callable[[bytes], dict[str, Any]]:
    empty, slots = dict[str, Any](), dict[int, _Slot]()
    for field in message.fields:
        optional = field.optional or field.repeated
        empty[field.original] = None if optional else DEFAULTS.get(field.type)
        wire, name, read = WIRE.get(field.type, LENGTH), field.original, _value(field)
        slots[field.number << _TAG_BITS | wire] = name, read, field.repeated
        if field.repeated and wire != LENGTH:
            slots[field.number << _TAG_BITS | LENGTH] = name, _packed(read), False

    def of(data: bytes) -> dict[str, Any]:
        found, at, end = empty.copy(), 0, len(data)
        while at < end:
            tag, at = read_varint(data, at)
            name, read, several = slots[tag]
            value, at = read(data, at)
            if not several:
                found[name] = value
            elif found[name] is None:
                found[name] = [value]
            else:
                found[name].append(value)
        if at != end:
            raise IndexError("it ends inside of a value")
        return found

    return of


def _value(field: Field) -> Read:
    if (scalar := _SCALARS.get(field.type)) is not None:
        return scalar
    known = TYPES.get(field.type)
    message = field.message if known is None else known.message
    assert message is not None, field.type
    read, wraps = _message(message), field.wraps
    is_object = wraps == MAP and _key_type(message) == "string"

    def value(data: bytes, at: int) -> tuple[Any, int]:
        inside, at = _octets(data, at)
        found: Any = read(inside)
        if known is not None:
            found = known.value(found)
        elif wraps == ARRAY:
            found = [one[VALUE] for one in found[ITEMS] or ()]
        elif wraps == MAP:
            pairs = [[one[KEY], one[VALUE]] for one in found[ENTRIES] or ()]
            found = dict(pairs) if is_object else pairs
        return found, at

    return value


def _key_type(message: Message) -> str:
    entry = message.fields[0].message
    assert entry is not None, message.name
    return entry.fields[0].type


def _packed(read: Read) -> Read:
    def values(data: bytes, at: int) -> tuple[Any, int]:
        inside, at = _octets(data, at)
        found, place = [], 0
        while place < len(inside):
            one, place = read(inside, place)
            found.append(one)
        return found, at

    return values


def _octets(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_varint(data, at)
    if at + size > len(data):
        raise IndexError("it ends inside of a value")
    return data[at : at + size], at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    found, at = read_varint(data, at)
    return (found ^ _SIGN_BIT) - _SIGN_BIT, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    found, at = _octets(data, at)
    return found.decode(), at


def _bytes(data: bytes, at: int) -> tuple[str, int]:
    found, at = _octets(data, at)
    return b2a_base64(found, newline=False).decode(), at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    found, at = read_varint(data, at)
    return bool(found), at


def _float(data: bytes, at: int) -> tuple[Any, int]:
    (found,) = _FLOAT.unpack_from(data, at)
    return shortest(found), at + _FLOAT.size


def _double(data: bytes, at: int) -> tuple[Any, int]:
    (found,) = _DOUBLE.unpack_from(data, at)
    return finite(found), at + _DOUBLE.size


_SCALARS: Final[dict[str, Read]] = {
    "bool": _boolean,
    "int32": _number,
    "int64": _number,
    "uint32": _number,
    "float": _float,
    "double": _double,
    "string": _text,
    "bytes": _bytes,
}
