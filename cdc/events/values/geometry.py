"""PostgreSQL's geometric types as Debezium's structs: coordinates beside well-known binary (WKB).

Debezium's forms: point, line and circle by their numbers; box and polygon as WKB polygons with a
closed ring; lseg and path as WKB line strings. The ring of a polygon whose own points end with the
first one gets no further point, and its extensions say so, for it is another value than the one
without its last point.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Sequence
from struct import pack
from typing import Final

from cdc.events.values.scalars import float_encoder
from cdc.events.values.text import Encoder, guarded

_LITTLE_ENDIAN: Final = 1
_POINT, _LINE_STRING, _POLYGON = 1, 2, 3

_NUMBER: Final = rb"(?:-?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?|NaN|-?Infinity)"
_PAIR: Final = rb"\(" + _NUMBER + rb"," + _NUMBER + rb"\)"
_PAIRS: Final = _PAIR + rb"(?:," + _PAIR + rb")*"
_numbers = re.compile(_NUMBER).findall
_number = float_encoder("float8")

_SHAPES: Final = {
    "point": _PAIR,
    "box": _PAIR + rb"," + _PAIR,
    "lseg": rb"\[" + _PAIR + rb"," + _PAIR + rb"\]",
    "path": rb"\(" + _PAIRS + rb"\)|\[" + _PAIRS + rb"\]",
    "polygon": rb"\(" + _PAIRS + rb"\)",
    "circle": rb"<" + _PAIR + rb"," + _NUMBER + rb">",
    "line": rb"\{" + _NUMBER + rb"," + _NUMBER + rb"," + _NUMBER + rb"\}",
}


def geometry_encoder(type_name: str) -> Encoder:
    """The encoder of point, line, lseg, box, path, polygon or circle."""
    fits = re.compile(_SHAPES[type_name]).fullmatch

    def encode(text: bytes) -> bytes:
        if not fits(text):
            raise ValueError
        numbers: list[bytes] = _numbers(text)
        if type_name == "point":
            return _point(numbers)
        if type_name == "line":
            return b'{"a":%b,"b":%b,"c":%b}' % tuple(_number(number) for number in numbers)
        if type_name == "circle":
            return b'{"center":%b,"radius":%b}' % (_point(numbers[:2]), _number(numbers[2]))
        extensions = b'"type":"%b"' % type_name.encode()
        if type_name == "path":
            extensions += b',"closed":"%b"' % (b"true" if text[:1] == b"(" else b"false")
        coordinates = [float(number) for number in numbers]
        if type_name == "polygon" and _ends_where_it_begins(coordinates):
            extensions += b',"closed":"true"'
        wkb = _well_known_binary(type_name, coordinates)
        return b'{"wkb":"%b","srid":null,"extensions":{%b}}' % (wkb, extensions)

    return guarded(type_name, encode)


def _point(numbers: Sequence[bytes]) -> bytes:
    x, y = numbers
    wkb = _base64(pack("<BI2d", _LITTLE_ENDIAN, _POINT, float(x), float(y)))
    return b'{"x":%b,"y":%b,"wkb":"%b","srid":null}' % (_number(x), _number(y), wkb)


def _well_known_binary(type_name: str, numbers: list[float]) -> bytes:
    if type_name == "box":
        right, top, left, bottom = numbers
        numbers = [right, top, right, bottom, left, bottom, left, top]
    if type_name in ("box", "polygon"):
        if type_name == "box" or not _ends_where_it_begins(numbers):
            numbers = [*numbers, *numbers[:2]]
        head = pack("<BII", _LITTLE_ENDIAN, _POLYGON, 1)
    else:
        head = pack("<BI", _LITTLE_ENDIAN, _LINE_STRING)
    return _base64(head + pack(f"<I{len(numbers)}d", len(numbers) // 2, *numbers))


def _ends_where_it_begins(numbers: list[float]) -> bool:
    """As Debezium compares: a coordinate that is no number equals none."""
    return numbers[0] == numbers[-2] and numbers[1] == numbers[-1]


def _base64(octets: bytes) -> bytes:
    return b2a_base64(octets, newline=False)
