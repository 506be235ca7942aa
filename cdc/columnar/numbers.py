"""Quick ways for columns of dates, times and decimals as numbers: ``cdc.events.values.epochs`` and
``decimals`` for many rows. Pure.

Each takes what nearly all values look like, with the same arithmetic, and gives None for a column
with any other value: its values are then encoded one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from cdc.columnar.arrays import (
    Bytes,
    Ints,
    data_of,
    decimals,
    from_parts,
    holds_only,
    offsets_of,
    sizes_of,
)
from cdc.events.values.epochs import DAY_S, Unit

_OF_NUMERIC: Final = b"0123456789.-"
_DATE: Final = "dddd-dd-dd"
_TIME: Final = "dd:dd:dd.dddddd"
_TIMESTAMP: Final = f"{_DATE} {_TIME}"
_FRACTION: Final = len(".dddddd")
_NANOSECONDS: Final = 10**9
_NANO_YEARS: Final = (1678, 2261)
"""Of which every moment has 64 bits of nanoseconds."""
_MOST_DIGITS: Final = 18
"""That any 64 bits hold."""
_LONGEST_NUMBER: Final = 500
_NUMBER: Final = r"\A-?[0-9]+(?:\.[0-9]+)?\z"
_BASE64: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)
_WIDTH: Final = 12
"""Characters of nine bytes, which eight fit into."""


def date_numbers(values: Any) -> Any | None:
    """Days since 1970, as text."""
    cells = _cells(values, _DATE, 0)
    return None if cells is None else decimals(_days(cells))


def time_numbers(values: Any, unit: Unit) -> Any | None:
    """Of times of day, in ``unit``, as text."""
    cells = _cells(values, _TIME, _FRACTION)
    return None if cells is None else decimals(_scaled(_micros(cells), unit))


def timestamp_numbers(values: Any, unit: Unit) -> Any | None:
    """Since 1970, in ``unit``, as text."""
    cells = _cells(values, _TIMESTAMP, _FRACTION)
    if cells is None:
        return None
    if unit.per_s == _NANOSECONDS:
        years = _number(cells, 0, 4)
        if years.min() < _NANO_YEARS[0] or years.max() > _NANO_YEARS[1]:
            return None
    micros = _days(cells) * (DAY_S * 10**6) + _micros(cells[:, len(_DATE) + 1 :])
    return decimals(_scaled(micros, unit))


def doubles(values: Any) -> Any | None:
    """The texts themselves, which are JSON numbers."""
    if sizes_of(values).max() > _LONGEST_NUMBER:
        return None
    return values if pc.all(pc.match_substring_regex(values, _NUMBER)).as_py() else None


def unscaled_base64(values: Any, precision: int, scale: int) -> Any | None:
    """Base64 of the integer that the digits of ``numeric(precision, scale)`` are."""
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return None
    data, offsets = data_of(values), offsets_of(values)
    if not holds_only(data, _OF_NUMERIC) or (np.diff(offsets) <= scale).any():
        return None
    points = np.flatnonzero(data == ord("."))
    if scale:
        expected = offsets[1:] - scale - 1
        if len(points) != len(values) or (points != expected).any() or (points == 0).any():
            return None
        if (offsets[:-1] >= points).any() or (data[points - 1] == ord("-")).any():
            return None
        values = from_parts(offsets - np.arange(len(offsets)), np.delete(data, points))
    elif len(points):
        return None
    if sizes_of(values).max() > _MOST_DIGITS + 1:
        return None
    try:
        numbers = pc.cast(pc.cast(values, pa.string()), pa.int64())
    except pa.ArrowInvalid:
        return None
    return _base64(np.frombuffer(numbers.buffers()[1], np.int64)[: len(values)])


def _cells(values: Any, form: str, may_lack: int) -> Bytes | None:
    """One line a value, its characters, filled up with zeros where up to ``may_lack`` of the last
    ones are missing: the point and its digits, of which there is at least one."""
    data, offsets = data_of(values), offsets_of(values)
    sizes, width = np.diff(offsets), len(form)
    least = width - may_lack
    if sizes.min() < least or sizes.max() > width or (may_lack and (sizes == least + 1).any()):
        return None
    padded = np.append(data, np.zeros(width, np.uint8))
    cells = sliding_window_view(padded, width)[offsets[:-1]]
    if may_lack:
        missing = np.arange(width) >= sizes[:, None]
        cells[missing] = ord("0")
        cells[sizes == least, least] = ord(".")
    kinds = np.frombuffer(form.encode(), np.uint8)
    digits = kinds == ord("d")
    if (cells[:, ~digits] != kinds[~digits]).any():
        return None
    return None if ((cells[:, digits] - np.uint8(ord("0"))) > 9).any() else cells


def _number(cells: Bytes, start: int, stop: int) -> Ints:
    found: Ints = np.zeros(len(cells), np.int64)
    for place in range(start, stop):
        found = found * 10 + (cells[:, place] - np.uint8(ord("0")))
    return found


def _days(cells: Bytes) -> Ints:
    """As ``cdc.events.values.epochs`` counts them."""
    year, month, day = _number(cells, 0, 4), _number(cells, 5, 7), _number(cells, 8, 10)
    year = year - (month <= 2)
    of_year = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5 + day - 1
    days: Ints = 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468
    return days


def _micros(cells: Bytes) -> Ints:
    """Of a day."""
    seconds = _number(cells, 0, 2) * 3600 + _number(cells, 3, 5) * 60 + _number(cells, 6, 8)
    return seconds * 10**6 + _number(cells, 9, 15)


def _scaled(micros: Ints, unit: Unit) -> Ints:
    factor = unit.per_s // 10**6
    return micros * factor if factor else micros // (10**6 // unit.per_s)


def _base64(numbers: Ints) -> Any:
    """In the fewest bytes that hold each with its sign."""
    size = np.ones(len(numbers), np.int64)
    magnitude = numbers ^ (numbers >> 63)
    for octets in range(1, 8):
        size += magnitude >= 1 << (8 * octets - 1)
    octets_of = np.zeros((len(numbers), 17), np.uint8)
    octets_of[:, :8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    at = (8 - size)[:, None] + np.arange(9)
    groups = np.take_along_axis(octets_of, at, 1).astype(np.uint32).reshape(-1, 3, 3)
    bits = groups[:, :, 0] << 16 | groups[:, :, 1] << 8 | groups[:, :, 2]
    sextets = bits[:, :, None] >> np.array([18, 12, 6, 0], np.uint32) & 0x3F
    characters: npt.NDArray[np.uint8] = _BASE64[sextets].reshape(-1, _WIDTH)
    places, width = np.arange(_WIDTH), 4 * ((size + 2) // 3)
    told = (8 * size + 5) // 6  # characters that hold bits; the others fill up
    characters[(places >= told[:, None]) & (places < width[:, None])] = ord("=")
    offsets = np.append(0, np.cumsum(width))
    return from_parts(offsets, characters[places < width[:, None]])
