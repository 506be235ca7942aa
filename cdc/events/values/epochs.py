"""Dates, times and intervals as numbers: Debezium's ``time.precision.mode`` but ``isostring``, and
``interval.handling.mode = numeric``.

Days of a date and fractions of a second of a timestamp count from 1970-01-01, proleptic and without
a zone; a time's from midnight, an interval's as such. What is infinite is the largest or the
smallest number of its type; what does not fit into 64 bits is null, but for intervals, which end at
the largest. Milliseconds are rounded down.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cdc.events.form import Times
from cdc.events.values.text import Encoder, malformed

_match_date = re.compile(rb"([0-9]{4,7})-([0-9]{2})-([0-9]{2})( BC)?").fullmatch
_match_timestamp = re.compile(
    rb"([0-9]{4,7})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,6})?( BC)?"
).fullmatch
_match_time = re.compile(rb"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,6})?").fullmatch
_match_interval = re.compile(
    rb"P(?=[-0-9T])(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)D)?"
    rb"(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+(?:\.[0-9]+)?)S)?)?"
).fullmatch

DAY_S: Final = 86_400
_MONTH_US: Final = 2_629_800_000_000
"""A twelfth of 365.25 days, as Debezium counts."""
_EPOCH: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
_NULL: Final = b"null"


class Unit(NamedTuple):
    """A second has ``per_s``; ``type`` is Connect's of the number, ``name`` that of its schema."""

    per_s: int
    type: str
    name: str


DATE: Final = Unit(1, "int32", "io.debezium.time.Date")
CONNECT_DATE: Final = Unit(1, "int32", "org.apache.kafka.connect.data.Date")
_TIMES: Final = {
    3: Unit(10**3, "int32", "io.debezium.time.Time"),
    6: Unit(10**6, "int64", "io.debezium.time.MicroTime"),
    9: Unit(10**9, "int64", "io.debezium.time.NanoTime"),
}
_TIMESTAMPS: Final = {
    3: Unit(10**3, "int64", "io.debezium.time.Timestamp"),
    6: Unit(10**6, "int64", "io.debezium.time.MicroTimestamp"),
    9: Unit(10**9, "int64", "io.debezium.time.NanoTimestamp"),
}
_CONNECT: Final = {
    "time": Unit(10**3, "int32", "org.apache.kafka.connect.data.Time"),
    "timestamp": Unit(10**3, "int64", "org.apache.kafka.connect.data.Timestamp"),
}


def date_unit(mode: Times) -> Unit | None:
    """What a date is counted in; None where it is text."""
    if mode == "isostring":
        return None
    return CONNECT_DATE if mode == "connect" else DATE


def time_unit(base: str, mode: Times, precision: int) -> Unit | None:
    """What a time or a timestamp is counted in, by its typmod; None where it is text."""
    of = _TIMES if base == "time" else _TIMESTAMPS
    match mode:
        case "isostring":
            return None
        case "connect":
            return _CONNECT[base]
        case "microseconds":
            return of[6]
        case "nanoseconds":
            return of[9]
        case "adaptive_time_microseconds" if base == "time":
            return of[6]
    return of[3] if 0 <= precision <= 3 else of[6]


def date_number(type_name: str) -> Encoder:
    """``19782`` for ``2024-02-29``."""

    def encode(text: bytes) -> bytes:
        if match := _match_date(text):
            return b"%d" % _days(*match.groups())
        return _infinite(text, _INT32, type_name)

    return encode


def time_number(type_name: str, unit: Unit) -> Encoder:
    """``45296500`` for ``12:34:56.5`` in milliseconds. The day's end is 86,400 seconds."""

    def encode(text: bytes) -> bytes:
        match = _match_time(text)
        if match is None:
            raise malformed(type_name)
        return b"%d" % _scaled(_second(*match.groups()[:3]), match[4], unit)

    return encode


def timestamp_number(type_name: str, unit: Unit) -> Encoder:
    """``1709208000000`` for ``2024-02-29 12:00:00`` in milliseconds."""

    def encode(text: bytes) -> bytes:
        match = _match_timestamp(text)
        if match is None:
            return _infinite(text, _INT64, type_name)
        year, month, day, hours, minutes, seconds, fraction, bc = match.groups()
        second = _days(year, month, day, bc) * DAY_S + _second(hours, minutes, seconds)
        number = _scaled(second, fraction, unit)
        return b"%d" % number if -_INT64 <= number < _INT64 else _NULL

    return encode


def interval_number(type_name: str) -> Encoder:
    """Microseconds."""

    def encode(text: bytes) -> bytes:
        match = _match_interval(text)
        if match is None:
            return _infinite(text, _INT64, type_name)
        years, months, days, hours, minutes = (int(part) for part in match.groups(b"0")[:5])
        whole, _, fraction = (match[6] or b"0").partition(b".")
        micros = int(fraction.ljust(6, b"0")[:6] or b"0")
        seconds = (days * 24 + hours) * 3600 + minutes * 60 + int(whole)
        number = (years * 12 + months) * _MONTH_US + seconds * 10**6
        number += -micros if whole[:1] == b"-" else micros
        return b"%d" % max(-_INT64 - 1, min(_INT64, number))

    return encode


def _infinite(text: bytes, largest: int, type_name: str) -> bytes:
    if text == b"infinity":
        return b"%d" % largest
    if text == b"-infinity":
        return b"%d" % (-largest - 1)
    raise malformed(type_name)


def _days(year: bytes, month: bytes, day: bytes, bc: bytes | None) -> int:
    """From 1970-01-01, in years that begin in March, so that a leap day is the last one."""
    y, m, d = (1 - int(year) if bc else int(year)), int(month), int(day)
    y -= m <= 2
    of_year = (153 * (m - 3 if m > 2 else m + 9) + 2) // 5 + d - 1
    return 365 * y + y // 4 - y // 100 + y // 400 + of_year - _EPOCH


def _second(hours: bytes, minutes: bytes, seconds: bytes) -> int:
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _scaled(seconds: int, fraction: bytes | None, unit: Unit) -> int:
    """In units of which a second has so many; what is finer is rounded down."""
    micros = int(fraction[1:].ljust(6, b"0")) if fraction else 0
    return (seconds * 10**6 + micros) * unit.per_s // 10**6
