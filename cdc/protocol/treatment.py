"""What is done to the values of a column before they leave the source. Pure.

A value is PostgreSQL's text of it, as ``pgoutput`` and COPY send it (UTF-8), and the result is text
whatever the column's type is. So one function serves the stream, snapshots, mirrors and ``verify``,
and gives the same bytes to each. NULL stays NULL.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

Kind = Literal["mask", "truncate", "hash"]
_KNOWN = b"headwater: a key of source.hash_keys"


@dataclass(frozen=True, slots=True)
class Treatment:
    """``argument`` is the text of a mask, the number of characters that are kept, or the name of
    the key that is hashed with; ``key`` is that key. ``of_type`` is the OID of the column's own
    type, 0 where it is not known, ``of_name`` its name, and ``of_typmod`` its typmod.
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
        if self.kind != "hash":
            return words
        return f"{words} {hmac.digest(self.key, _KNOWN, 'sha256').hex()[:16]}"

    def function(self) -> Callable[[bytes], bytes]:
        """Gives the value that may leave the source, for any bytes; called for every row."""
        if self.kind == "mask":
            return partial(_masked, self.argument.encode())
        if self.kind == "truncate":
            return partial(_truncated, int(self.argument))
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
