"""What is done to the values of a column before they leave the source. Pure.

A value is PostgreSQL's text of it, as ``pgoutput`` and COPY send it (UTF-8), and the result is text
whatever the column's type is. So one function serves the stream, snapshots, mirrors and ``verify``,
and gives the same bytes to each. NULL stays NULL.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha512
from typing import TYPE_CHECKING, Final, Literal

from cdc.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

Kind = Literal["mask", "truncate", "hash", "encrypt"]
KEYED: Final = ("hash", "encrypt")
_KNOWN: Final = {
    "hash": b"headwater: a key of source.hash_keys",
    "encrypt": b"headwater: a key of source.encryption_keys",
}


@dataclass(frozen=True, slots=True)
class Treatment:
    """``argument`` is the text of a mask, the number of characters that are kept, or the name of
    the key that is hashed or encrypted with; ``key`` is that key. ``of_type`` is the OID of the
    column's own type, 0 where it is not known, ``of_name`` its name, and ``of_typmod`` its typmod.
    """

    kind: Kind
    argument: str
    key: bytes = field(default=b"", repr=False)
    of_type: int = 0
    of_name: str = ""
    of_typmod: int = -1

    def __str__(self) -> str:
        """``mask ***``, ``hash 2026 0f3c...``: as ``<source>.__schemas`` tells it. A key is told by
        its name and a fingerprint, by which another key of that name is noticed."""
        words = f"{self.kind} {self.argument}"
        if self.kind not in KEYED:
            return words
        return f"{words} {hmac.digest(self.key, _KNOWN[self.kind], 'sha256').hex()[:16]}"

    def function(self) -> Callable[[bytes], bytes]:
        """Gives the value that may leave the source, for any bytes; called for every row."""
        if self.kind == "mask":
            return partial(_masked, self.argument.encode())
        if self.kind == "truncate":
            return partial(_truncated, int(self.argument))
        if self.kind == "encrypt":
            return partial(_encrypted, f"{self.argument}:".encode(), _cipher(self.key))
        keyed = hmac.new(self.key, digestmod="sha256")
        return partial(_hashed, self.argument, keyed)


def _masked(mask: bytes, _: bytes) -> bytes:
    return mask


def _truncated(characters: int, value: bytes) -> bytes:
    text = value.decode(errors="surrogateescape")
    return text[:characters].encode(errors="surrogateescape")


def _hashed(name: str, keyed: hmac.HMAC, value: bytes) -> bytes:
    digest = keyed.copy()
    digest.update(value)
    return f"{name}:{digest.hexdigest()}".encode()


def _encrypted(name: bytes, cipher: AESSIV, value: bytes) -> bytes:
    return name + b64encode(cipher.encrypt(value, None))


def _cipher(key: bytes) -> AESSIV:
    """AES-256-SIV (RFC 5297): the same value gives the same bytes, as stream and snapshot need."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(sha512(key).digest())


def decrypt(text: str, keys: Mapping[str, str]) -> str:
    """The value, which was not NULL, of a column with ``"encrypt"``, as PostgreSQL's text.

    ``keys`` are those of ``source.encryption_keys``, by name. Raises ``UsageError`` for a text that
    was not encrypted, or not with one of them.
    """
    from cryptography.exceptions import InvalidTag

    name, colon, encoded = text.partition(":")
    if not colon or name not in keys:
        raise UsageError(
            "the text was not encrypted with one of the keys", f"known are {', '.join(keys)}"
        )
    try:
        sealed = b64decode(encoded, validate=True)
        return _cipher(keys[name].encode()).decrypt(sealed, None).decode()
    except (ValueError, InvalidTag) as error:
        raise UsageError(
            f"the text was not encrypted with the key {name}, or was altered since",
            "give the key that source.encryption_keys had under that name",
        ) from error
