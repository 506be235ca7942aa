"""``bytea`` in Debezium's ``binary.handling.mode``."""

from __future__ import annotations

from binascii import unhexlify

from cdc.events.form import Binaries
from cdc.events.values.scalars import bytea_encoder
from cdc.events.values.text import Encoder, malformed


def binary_encoder(type_name: str, mode: Binaries) -> Encoder:
    """Base64, also in the mode ``bytes``, for JSON has no bytes of its own; or hex."""
    if mode == "hex":
        return _hex_encoder(type_name)
    base64 = bytea_encoder(type_name)
    if mode != "base64-url-safe":
        return base64
    return lambda text: base64(text).replace(b"+", b"-").replace(b"/", b"_")


def _hex_encoder(type_name: str) -> Encoder:
    def encode(text: bytes) -> bytes:
        if text[:2] != b"\\x":
            raise malformed(type_name)
        try:
            unhexlify(text[2:])
        except ValueError:
            raise malformed(type_name) from None
        return b'"%b"' % text[2:]

    return encode
