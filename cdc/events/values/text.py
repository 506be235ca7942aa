"""JSON strings from UTF-8 bytes, and the error that every encoder of values raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Final

from cdc.errors import ProtocolError

Encoder = Callable[[bytes], bytes]
"""PostgreSQL's text form of one value in, its JSON out. Raises ``ProtocolError`` only."""

ColumnEncoder = Callable[[Sequence[bytes]], list[bytes]]
"""The same for many values of one column at once, which costs a fraction of as many calls."""

_ESCAPED: Final = bytes(range(0x20)) + b'"\\'
_NUL: Final = b"\0"  # PostgreSQL's text never holds it, so it can stand between values
_ESCAPED_BUT_NUL: Final = _ESCAPED.replace(_NUL, b"")
_LONG: Final = 100  # bytes from which looking for something to escape is cheaper than copying


def malformed(type_name: str) -> ProtocolError:
    """The error for bytes that no session with capture's settings sends for this type."""
    return ProtocolError(
        f"a value of type {type_name} does not have PostgreSQL's text form",
        "run the session with capture's own settings and client_encoding UTF8",
    )


def text_encoder(type_name: str) -> Encoder:
    """JSON strings, without ``\\u`` escapes for what JSON lets stand as it is."""

    def encode(text: bytes) -> bytes:
        try:
            string = text.decode()
        except UnicodeDecodeError:
            raise malformed(type_name) from None
        if len(text) > _LONG and len(text.translate(None, _ESCAPED)) == len(text):
            return b'"%b"' % text
        return encode_basestring(string).encode()

    return encode


quote: Final = text_encoder("text")


def text_column(type_name: str) -> ColumnEncoder:
    """Looks for what needs escaping once for all values, and goes one by one only if it must."""
    each = text_encoder(type_name)

    def encode(values: Sequence[bytes]) -> list[bytes]:
        joined = _NUL.join(values)
        escaped = len(joined.translate(None, _ESCAPED_BUT_NUL)) != len(joined)
        if escaped or joined.count(_NUL) >= len(values):
            return list(map(each, values))
        try:
            joined.decode()
        except UnicodeDecodeError:
            raise malformed(type_name) from None
        return in_quotes(values)

    return encode


def in_quotes(values: Sequence[bytes]) -> list[bytes]:
    """JSON strings of values of which none needs escaping."""
    return (b'"' + b'"\0"'.join(values) + b'"').split(_NUL) if values else []


def guarded(type_name: str, encode: Encoder) -> Encoder:
    """An encoder that may raise ``ValueError``, made to raise ``ProtocolError`` instead."""

    def guard(text: bytes) -> bytes:
        try:
            return encode(text)
        except ValueError:
            raise malformed(type_name) from None

    return guard
