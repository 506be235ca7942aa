"""``numeric`` and ``money`` as numbers: Debezium's ``decimal.handling.mode`` but ``string``.

With ``precise`` a number is an integer in the fewest bytes that hold it (two's complement, the
highest first), and how many of its digits are behind the point: the column's (Connect's
``Decimal``), or the value's own where the column says nothing (Debezium's ``VariableScaleDecimal``,
without closing zeros). What is not finite has no such form and is null.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from decimal import Decimal
from math import isinf
from typing import Final

from cdc.events.values.scalars import money_encoder
from cdc.events.values.text import Encoder, malformed

NOT_FINITE: Final = (b"NaN", b"Infinity", b"-Infinity")
_match_number = re.compile(rb"(-?[0-9]+)(?:\.([0-9]+))?").fullmatch
LONGEST: Final = 500
"""Characters of a number: common parsers refuse one of more than a thousand."""
_FRACTION: Final = 16
"""Digits behind the point of a number that has one before it, and as many as a double."""
_HEADER: Final = 4
_SCALE_BITS: Final = 11
_COMMON_DIGITS: Final = 2


def precision_and_scale(typmod: int) -> tuple[int, int] | None:
    """Of ``numeric(p,s)``; None without them. A scale has eleven bits, and may be negative."""
    if typmod < _HEADER:
        return None
    bits = (typmod - _HEADER) & ((1 << _SCALE_BITS) - 1)
    return (typmod - _HEADER) >> 16, (bits ^ 1 << 10) - (1 << 10)


def money_digits(digits: int) -> int:
    """Behind the point, as ``cdc.source.types`` tells them in the typmod."""
    return _COMMON_DIGITS if digits == -1 else digits


def double_encoder(type_name: str) -> Encoder:
    """A JSON number with every digit that the server sent, but of one with more digits than parsers
    of JSON take only those that a double has, with an exponent, by which it is told from all
    others; not finite: JSON strings."""

    def encode(text: bytes) -> bytes:
        if _match_number(text):
            return text if len(text) <= LONGEST else _rounded(text)
        if text in NOT_FINITE:
            return b'"%b"' % text
        raise malformed(type_name)

    return encode


def _rounded(text: bytes) -> bytes:
    number = float(text)
    if isinf(number):  # its nearest double would be, the number is not
        return f"{Decimal(text.decode()):.{_FRACTION}e}".encode()
    digits = repr(number)
    return (digits if "e" in digits else f"{digits}e0").encode()


def decimal_encoder(type_name: str, scale: int) -> Encoder:
    """Base64 of the number times ten to the power of ``scale``."""

    def encode(text: bytes) -> bytes:
        match = _match_number(text)
        if match is None:
            if text in NOT_FINITE:
                return b"null"
            raise malformed(type_name)
        whole, fraction = match[1], match[2] or b""
        if scale < 0:
            return _base64(_integer(whole) // 10**-scale)
        return _base64(_integer(whole + fraction[:scale].ljust(scale, b"0")))

    return encode


def variable_decimal_encoder(type_name: str) -> Encoder:
    """``{"scale":1,"value":"Cw=="}`` for 1.1."""

    def encode(text: bytes) -> bytes:
        match = _match_number(text)
        if match is None:
            if text in NOT_FINITE:
                return b"null"
            raise malformed(type_name)
        fraction = (match[2] or b"").rstrip(b"0")
        return b'{"scale":%d,"value":%b}' % (len(fraction), _base64(_integer(match[1] + fraction)))

    return encode


def money_number(type_name: str, digits: int, *, precise: bool) -> Encoder:
    """Of the decimal that ``money_encoder`` gives; text of another locale has none."""
    as_text = money_encoder(type_name, digits)
    scale = money_digits(digits)
    encode_number = decimal_encoder(type_name, scale) if precise else double_encoder(type_name)

    def encode(text: bytes) -> bytes:
        return encode_number(as_text(text)[1:-1])

    return encode


def _integer(digits: bytes) -> int:
    """Python takes no more than 4,300 digits at once."""
    if len(digits) <= 4000:
        return int(digits)
    negative, digits = digits[:1] == b"-", digits.lstrip(b"-")
    half = len(digits) // 2
    number: int = _integer(digits[:half]) * 10 ** (len(digits) - half) + _integer(digits[half:])
    return -number if negative else number


def _base64(number: int) -> bytes:
    """As Java's ``BigInteger.toByteArray``: one bit more than the number's is for its sign."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    octets = number.to_bytes(bits // 8 + 1, "big", signed=True)
    return b'"%b"' % b2a_base64(octets, newline=False)
