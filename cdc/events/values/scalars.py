"""Numbers, booleans, bytes and bits."""

from __future__ import annotations

import re
from binascii import b2a_base64, unhexlify
from collections.abc import Sequence
from typing import Final

from cdc.events.values.text import ColumnEncoder, Encoder, in_quotes, malformed, text_encoder

# JSON's grammar of numbers, which PostgreSQL's forms 1e+20 and -0 follow.
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)").fullmatch
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+][0-9]+)?").fullmatch
# With lc_monetary C or en_US. What other locales print has no single reading: kept as text.
_MONEY: Final = re.compile(rb"-?\$[0-9]{1,3}(?:,[0-9]{3})*\.[0-9]{2}").fullmatch
_NOT_FINITE: Final = {
    b"NaN": b'"NAN"',
    b"Infinity": b'"POSITIVE_INFINITY"',
    b"-Infinity": b'"NEGATIVE_INFINITY"',
}


def integer_encoder(type_name: str) -> Encoder:
    """Integers inside arrays, where a wrong delimiter could otherwise go unseen."""

    def encode(text: bytes) -> bytes:
        if _INTEGER(text):
            return text
        raise malformed(type_name)

    return encode


def boolean_encoder(type_name: str) -> Encoder:
    """``true`` or ``false``."""

    def encode(text: bytes) -> bytes:
        if text == b"t":
            return b"true"
        if text == b"f":
            return b"false"
        raise malformed(type_name)

    return encode


def float_encoder(type_name: str) -> Encoder:
    """PostgreSQL's shortest exact form, which is a JSON number; not finite: JSON strings."""

    def encode(text: bytes) -> bytes:
        if _NUMBER(text):
            return text
        if text in _NOT_FINITE:
            return b'"%b"' % text
        raise malformed(type_name)

    return encode


def numeric_encoder(type_name: str) -> Encoder:
    """A string with every digit the server sent; not finite: Debezium's words."""

    def encode(text: bytes) -> bytes:
        if text and not text.strip(b"0123456789.-"):
            return b'"%b"' % text
        if text in _NOT_FINITE:
            return _NOT_FINITE[text]
        raise malformed(type_name)

    return encode


def numeric_column(type_name: str) -> ColumnEncoder:
    """The same for a column: finite numbers need one look at all of them."""
    each = numeric_encoder(type_name)

    def encode(values: Sequence[bytes]) -> list[bytes]:
        if all(values) and not b"-".join(values).strip(b"0123456789.-"):
            return in_quotes(values)
        return list(map(each, values))

    return encode


def money_encoder(type_name: str, digits: int = -1) -> Encoder:
    """A decimal string without currency sign and grouping.

    ``digits`` behind the point are the currency's, -1 counts as 2. The text always shows two: it
    is the number of the smallest units, divided by a hundred.
    """
    other_locale = text_encoder(type_name)

    def encode(text: bytes) -> bytes:
        if not _MONEY(text):
            return other_locale(text)
        if digits in (-1, 2):
            return b'"%b"' % text.translate(None, b"$,")
        units = text.translate(None, b"-$,.").lstrip(b"0").rjust(digits + 1, b"0")
        whole, fraction = units[: len(units) - digits], units[len(units) - digits :]
        number = b"%b.%b" % (whole, fraction) if digits else whole
        return b'"-%b"' % number if text[:1] == b"-" else b'"%b"' % number

    return encode


def bytea_encoder(type_name: str) -> Encoder:
    """Base64 of the bytes."""

    def encode(text: bytes) -> bytes:
        if text[:2] != b"\\x":
            raise malformed(type_name)
        try:
            return b'"%b"' % b2a_base64(unhexlify(text[2:]), newline=False)
        except ValueError:
            raise malformed(type_name) from None

    return encode


def bit_encoder(type_name: str, length: int) -> Encoder:
    """``bit(1)``: a boolean; ``bit(n)``: base64 of the little-endian bytes, zero bytes trimmed.

    The length is the column's. Where only the value knows it (``length`` below 1: ``varbit``, and
    ``bit`` of an expression), text of 0 and 1 keeps it.
    """

    def encode(text: bytes) -> bytes:
        if text.strip(b"01"):
            raise malformed(type_name)
        if length < 1:
            return b'"%b"' % text
        if len(text) != length:
            raise malformed(type_name)
        if length == 1:
            return b"true" if text == b"1" else b"false"
        # Below base 10 only powers of two have no limit on the number of digits.
        number = int(text, 2)
        octets = number.to_bytes((number.bit_length() + 7) // 8, "little")
        return b'"%b"' % b2a_base64(octets, newline=False)

    return encode
