"""Avro's binary encoding, by the schema that wrote it, as the JSON that it was made of. Pure."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable
from math import isfinite, isnan
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from cdc.events.formats.avro_schema import MAP_ENTRY, ORIGINAL
from cdc.events.formats.varints import read_zigzag

Read = Callable[[bytes, int], tuple[Any, int]]
"""From data and a place in it to a value and where the next one begins. Raises ``IndexError``,
``ValueError`` or ``struct.error`` for what is not of the schema."""

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_OPTIONAL: Final = 2
_PRESENT: Final = 2
"""The second branch of a union, in zigzag."""
_LEAST_DIGITS: Final = 6
_MOST_DIGITS: Final = 9
_NORMAL: Final = 2.0**-126
"""The smallest float of 32 bits that has all its digits."""


def avro_reader(document: str) -> Callable[[bytes], Any]:
    """From Avro, without what stands in front of it, to a value of JSON. Raises ``ValueError`` for
    what is not of the schema."""
    read = _Types().of(json.loads(document))

    def value(data: bytes) -> Any:
        try:
            found, end = read(data, 0)
        except (IndexError, StructError) as error:
            raise ValueError(f"no record of its schema: {error}") from None
        if end != len(data):
            raise ValueError("no record of its schema: bytes are left")
        return found

    return value


class _Types:
    """``named`` are the records that were met, which stand by their name from then on."""

    def __init__(self) -> None:
        self._named: dict[str, Read] = {}

    def of(self, document: Any, namespace: str = "") -> Read:
        if isinstance(document, list):
            return _union([self.of(one, namespace) for one in document])
        if isinstance(document, str):
            if (read := _SIMPLE.get(document)) is not None:
                return read
            name = document if "." in document else f"{namespace}.{document}"
            return self._named[name]
        match document["type"]:
            case "record":
                return self._record(document, namespace)
            case "array":
                return _array(self.of(document["items"], namespace), document["items"])
            case "map":
                return _map(self.of(document["values"], namespace))
        return self.of(document["type"], namespace)

    def _record(self, document: Any, outer: str) -> Read:
        namespace = document.get("namespace", outer)
        fields = [
            (field.get(ORIGINAL, field["name"]), self.of(field["type"], namespace))
            for field in document["fields"]
        ]

        def read(data: bytes, at: int) -> tuple[Any, int]:
            found = {}
            for name, of in fields:
                found[name], at = of(data, at)
            return found, at

        self._named[f"{namespace}.{document['name']}"] = read
        return read


def _union(branches: list[Read]) -> Read:
    if len(branches) == _OPTIONAL and branches[0] is _null:
        return _optional(branches[1])

    def read(data: bytes, at: int) -> tuple[Any, int]:
        chosen, at = read_zigzag(data, at)
        return branches[chosen](data, at)

    return read


def _optional(present: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        if branch == _PRESENT:
            return present(data, at + 1)
        if branch:
            raise IndexError("no branch of a union")
        return None, at + 1

    return read


def _items(one: Read) -> Callable[[bytes, int], tuple[list[Any], int]]:
    """Blocks of items, up to an empty one. A negative count has the block's size behind it."""

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at = read_zigzag(data, at)
            if not count:
                return found, at
            if count < 0:
                _, at = read_zigzag(data, at)
            for _ in range(abs(count)):
                item, at = one(data, at)
                found.append(item)

    return read


def _array(one: Read, document: Any) -> Read:
    read = _items(one)
    if not isinstance(document, dict) or document.get("name") != MAP_ENTRY:
        return read

    def pairs(data: bytes, at: int) -> tuple[Any, int]:
        found, at = read(data, at)
        return [[item["key"], item["value"]] for item in found], at

    return pairs


def _map(value: Read) -> Read:
    def entry(data: bytes, at: int) -> tuple[Any, int]:
        name, at = _text(data, at)
        of, at = value(data, at)
        return (name, of), at

    read = _items(entry)

    def whole(data: bytes, at: int) -> tuple[Any, int]:
        found, at = read(data, at)
        return dict(found), at

    return whole


def _octets(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_zigzag(data, at)
    if size < 0 or at + size > len(data):
        raise IndexError("it ends inside of a value")
    return data[at : at + size], at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    found, at = _octets(data, at)
    return found.decode(), at


def _bytes(data: bytes, at: int) -> tuple[str, int]:
    found, at = _octets(data, at)
    return b2a_base64(found, newline=False).decode(), at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return bool(data[at]), at + 1


def _null(_data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _float(data: bytes, at: int) -> tuple[Any, int]:
    (found,) = _FLOAT.unpack_from(data, at)
    return shortest(found), at + _FLOAT.size


def _double(data: bytes, at: int) -> tuple[Any, int]:
    (found,) = _DOUBLE.unpack_from(data, at)
    return finite(found), at + _DOUBLE.size


def shortest(number: float) -> float | str:
    """The number with the fewest digits that is the same float of 32 bits."""
    if not isfinite(number):
        return finite(number)
    for digits in range(_LEAST_DIGITS if abs(number) >= _NORMAL else 1, _MOST_DIGITS):
        found = float(f"{number:.{digits}g}")
        if _FLOAT.unpack(_FLOAT.pack(found))[0] == number:
            return found
    return float(f"{number:.{_MOST_DIGITS}g}")


def finite(number: float) -> float | str:
    """JSON has no other numbers: they are text."""
    if isnan(number):
        return "NaN"
    if isfinite(number):
        return number
    return "Infinity" if number > 0 else "-Infinity"


_SIMPLE: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": read_zigzag,
    "long": read_zigzag,
    "float": _float,
    "double": _double,
    "string": _text,
    "bytes": _bytes,
}
