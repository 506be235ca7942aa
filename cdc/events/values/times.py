"""Dates, times and intervals in the ISO 8601 forms of Debezium's ``isostring``.

Years are proleptic and signed beyond four digits: 44 BC is ``-0043``, 12345 is ``+12345``. What is
infinite is ``"infinity"`` or ``"-infinity"``. Fractions of a second are without closing zeros, but
``timestamptz`` has as many digits as the column's precision. The day's end stays ``24:00:00``.
"""

from __future__ import annotations

import re
from typing import Final

from cdc.events.values.text import Encoder, guarded, malformed

_DAY_S: Final = 86_400
_PLAIN: Final = b"0123456789-: ."  # all that occurs in a timestamp of the years 1 to 9999
_TIME: Final = rb"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_INFINITE: Final = (b"infinity", b"-infinity")

_match_date = re.compile(rb"([0-9]{4,7})(-[0-9]{2}-[0-9]{2})( BC)?").fullmatch
_match_timestamp = re.compile(
    rb"([0-9]{4,7})(-[0-9]{2}-[0-9]{2}) (" + _TIME + rb")(\+00)?( BC)?"
).fullmatch
_match_time = re.compile(_TIME).fullmatch
_match_timetz = re.compile(
    rb"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,6})?"
    rb"([-+])([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?)?"
).fullmatch
_match_interval = re.compile(
    rb"P(?=[-0-9T])(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)D)?"
    rb"(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+(?:\.[0-9]+)?)S)?)?"
).fullmatch


def date_encoder(type_name: str) -> Encoder:
    """``"2024-02-29Z"``."""

    def encode(text: bytes) -> bytes:
        if len(text) == 10 and not text.strip(b"0123456789-"):
            return b'"%bZ"' % text
        if match := _match_date(text):
            year, rest, bc = match.groups()
            return b'"%b%bZ"' % (_year(year, bc), rest)
        if text in _INFINITE:
            return b'"%b"' % text
        raise malformed(type_name)

    return encode


def time_encoder(type_name: str) -> Encoder:
    """``"12:34:56.5Z"``."""

    def encode(text: bytes) -> bytes:
        if _match_time(text):
            return b'"%bZ"' % text
        raise malformed(type_name)

    return encode


def timestamp_encoder(type_name: str) -> Encoder:
    """``"2024-02-29T12:34:56.5Z"``."""

    def encode(text: bytes) -> bytes:
        if text[4:5] == b"-" and text[10:11] == b" " and not text.strip(_PLAIN):
            return b'"%bT%bZ"' % (text[:10], text[11:])
        match = _match_timestamp(text)
        if match and not match[4]:
            year, rest, time, _, bc = match.groups()
            return b'"%b%bT%bZ"' % (_year(year, bc), rest, time)
        if text in _INFINITE:
            return b'"%b"' % text
        raise malformed(type_name)

    return encode


def timestamptz_encoder(type_name: str, precision: int) -> Encoder:
    """``"2024-02-29T12:34:56.500000Z"``; ``precision`` is the typmod, -1 counts as 6."""
    digits = 6 if precision < 0 else precision

    def encode(text: bytes) -> bytes:
        time = text[11:-3]
        if (
            text[4:5] == b"-"
            and text[10:11] == b" "
            and text[-3:] == b"+00"
            and not text.strip(b"0123456789-: .+")
        ):
            if len(time) == digits + 9:  # HH:MM:SS and all of .ffffff
                return b'"%bT%bZ"' % (text[:10], time)
            return b'"%bT%bZ"' % (text[:10], _padded(time, digits))
        match = _match_timestamp(text)
        if match and match[4]:
            year, rest, time, _, bc = match.groups()
            return b'"%b%bT%bZ"' % (_year(year, bc), rest, _padded(time, digits))
        if text in _INFINITE:
            return b'"%b"' % text
        raise malformed(type_name)

    return encode


def timetz_encoder(type_name: str) -> Encoder:
    """The time of day in UTC: ``"07:04:56.5Z"`` for ``12:34:56.5+05:30``."""

    def encode(text: bytes) -> bytes:
        match = _match_timetz(text)
        if match is None:
            raise malformed(type_name)
        hour, minute, second, fraction, sign, *zone = match.groups()
        offset_s = _seconds(*[part or b"0" for part in zone])
        if offset_s == 0:
            return b'"%b:%b:%b%bZ"' % (hour, minute, second, fraction or b"")
        local_s = _seconds(hour, minute, second)
        utc_s = (local_s + (offset_s if sign == b"-" else -offset_s)) % _DAY_S
        clock = (utc_s // 3600, utc_s // 60 % 60, utc_s % 60)
        return b'"%02d:%02d:%02d%bZ"' % (*clock, fraction or b"")

    return encode


def interval_encoder(type_name: str) -> Encoder:
    """All six units, ``"P0Y0M1DT0H0M-1.5S"``, from PostgreSQL's ISO form, which omits zeros."""

    def encode(text: bytes) -> bytes:
        if text in _INFINITE:
            return b'"%b"' % text
        match = _match_interval(text)
        if match is None:
            raise ValueError
        return b'"P%bY%bM%bDT%bH%bM%bS"' % match.groups(b"0")

    return guarded(type_name, encode)


def _padded(time: bytes, digits: int) -> bytes:
    """``HH:MM:SS[.f]`` with exactly so many digits behind the point."""
    if not digits:
        return time
    whole, _, fraction = time.partition(b".")
    return b"%b.%b" % (whole, fraction.ljust(digits, b"0"))


def _year(digits: bytes, bc: bytes | None) -> bytes:
    """Astronomical years, in which 1 BC is 0."""
    year = 1 - int(digits) if bc else int(digits)
    if 0 <= year <= 9999:
        return b"%04d" % year
    return b"+%d" % year if year > 0 else b"-%04d" % -year


def _seconds(hours: bytes, minutes: bytes, seconds: bytes) -> int:
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)
