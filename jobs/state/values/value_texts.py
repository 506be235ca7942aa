"""PostgreSQL's text of a value, from the form that it has in events. Pure.

The inverse of ``cdc.events.values``, for the types whose form SQL cannot read: what is here is read
by Python, once for each row. The JSON is parsed with its numbers as text, so that none loses a
digit.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from struct import unpack_from
from typing import Any, Final

from cdc.events.values.encoder import TEXT_KINDS
from cdc.protocol.relation import TypeInfo

Reader = Callable[[Any], str]
"""From a JSON value that is not null to PostgreSQL's text. Raises ``ValueError``, ``TypeError``
or ``KeyError`` for what is not of the form."""

_WORDS: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_DATED = re.compile(r"([-+]?)(\d+)(-\d\d-\d\d.*)", re.DOTALL).fullmatch
_COMMON_DIGITS: Final = 2
_WKB_HEADER: Final = {"box": 13, "polygon": 13, "lseg": 9, "path": 9}
"""Where the coordinates begin: behind byte order, type, number of rings and of points."""


def reader(type: TypeInfo, typmod: int) -> Reader:
    """What reads the values of a column. ``typmod`` is the column's, or its domain's."""
    if type.kind in TEXT_KINDS:
        return _text
    if type.element is not None:
        element = reader(type.element, type.element.typmod if type.element.typmod != -1 else typmod)
        return lambda value: _array(value, element, type.delimiter)
    if type.base == "bit":
        return lambda value: _bits(value, typmod)
    if type.base == "money" and typmod not in (-1, _COMMON_DIGITS):
        return lambda value: _money(value, typmod)
    if type.base in _WKB_HEADER:
        return lambda value: _shape(value, type.base)
    return _READERS.get(type.base, _text)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {value.__class__.__name__} in place of a string")
    return value


def _boolean(value: Any) -> str:
    return "t" if value else "f"


def _numeric(value: str) -> str:
    return _WORDS.get(value, value)


def _bytes(value: str) -> str:
    return "\\x" + b64decode(value, validate=True).hex()


def _dated(value: str) -> str:
    """A date or a timestamp: ISO's years to PostgreSQL's, which has no year 0."""
    match = _DATED(value)
    if match is None:
        return _text(value)  # infinity
    sign, digits, rest = match.groups()
    year = int(sign + digits)
    return f"{year:04d}{rest}" if year > 0 else f"{1 - year:04d}{rest} BC"


def _bits(value: str | bool, length: int) -> str:
    """``bit(n)`` is a boolean, or bytes from the lowest to the highest. Without a length: text."""
    if length < 1:
        return _text(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    bits = f"{int.from_bytes(b64decode(value, validate=True), 'little'):0{length}b}"
    if len(bits) != length:
        raise ValueError(f"{len(bits)} bits in place of {length}")
    return bits


def _money(value: str, digits: int) -> str:
    """Hundredths, as lc_monetary C has them, of so many of the smallest units."""
    if not re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value  # of a locale that has no form of its own
    sign = "-" if value.startswith("-") else ""
    whole, _, fraction = value.removeprefix("-").partition(".")
    units = f"{int(whole + fraction.ljust(digits, '0')):03d}"
    return f"{sign}{units[:-2]}.{units[-2:]}"


def _array(value: Any, element: Reader, delimiter: str) -> str:
    """With other lower bounds than 1 it is PostgreSQL's text already."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise TypeError(f"a {value.__class__.__name__} in place of an array")
    parts = []
    for item in value:
        if item is None:
            parts.append("NULL")
        elif isinstance(item, list) and element is not _vector:
            parts.append(_array(item, element, delimiter))
        else:
            parts.append(_in_quotes(element(item)))
    return "{" + delimiter.join(parts) + "}"


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _point(value: Any) -> str:
    return f"({value['x']},{value['y']})"


def _line(value: Any) -> str:
    return f"{{{value['a']},{value['b']},{value['c']}}}"


def _circle(value: Any) -> str:
    return f"<{_point(value['center'])},{value['radius']}>"


def _shape(value: Any, base: str) -> str:
    """From well-known binary: a box and a polygon are rings that end where they begin. The last
    point of a polygon is not its own, but where its extensions say so; of Debezium's topics, where
    they never do, only a ring of one point is told by itself."""
    octets = b64decode(value["wkb"], validate=True)
    start = _WKB_HEADER[base]
    numbers = unpack_from(f"<{(len(octets) - start) // 8}d", octets, start)
    if base == "box":  # right top, right bottom, left bottom, left top, right top
        points = _points([*numbers[:2], *numbers[4:6]])
        return ",".join(points)
    if base == "polygon":
        is_own = value["extensions"].get("closed") == "true" or len(numbers) == 2
        return f"({','.join(_points(numbers if is_own else numbers[:-2]))})"
    joined = ",".join(_points(numbers))
    is_open = base == "lseg" or value["extensions"]["closed"] == "false"
    return f"[{joined}]" if is_open else f"({joined})"


def _points(numbers: Sequence[float]) -> list[str]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [f"({x!r},{y!r})" for x, y in pairs]


def _hstore(value: str) -> str:
    """From a JSON object in a JSON string."""
    pairs: dict[str, str | None] = json.loads(value)
    parts = (
        f"{_in_quotes(key)}=>{'NULL' if held is None else _in_quotes(held)}"
        for key, held in pairs.items()
    )
    return ", ".join(parts)


def _vector(value: Any) -> str:
    return f"[{','.join(value)}]"


def _sparse_vector(value: Any) -> str:
    pairs = ",".join(f"{index}:{number}" for index, number in value["vector"])
    return f"{{{pairs}}}/{value['dimensions']}"


_READERS: Final[dict[str, Reader]] = {
    "bool": _boolean,
    "numeric": _numeric,
    "bytea": _bytes,
    "date": _dated,
    "timestamp": _dated,
    "timestamptz": _dated,
    "point": _point,
    "line": _line,
    "circle": _circle,
    "hstore": _hstore,
    "vector": _vector,
    "halfvec": _vector,
    "sparsevec": _sparse_vector,
}


def parse_image(image: str) -> dict[str, Any]:
    """A row image with its numbers as text."""
    parsed = json.loads(image, parse_int=str, parse_float=str, parse_constant=str)
    if not isinstance(parsed, dict):
        raise TypeError("a row image that is no object")
    return parsed


def rewritten(image: str, readers: Mapping[str, Reader], left_out: Sequence[str]) -> str:
    """The image with the values of some columns as PostgreSQL's text, and without ``left_out``:
    columns whose value the event does not have."""
    row = parse_image(image)
    for name in left_out:
        row.pop(name, None)
    for name, read in readers.items():
        if (value := row.get(name)) is not None:
            row[name] = read(value)
    return json.dumps(row, ensure_ascii=False)
