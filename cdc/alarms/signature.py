"""What a message to a webhook is signed with, as Standard Webhooks has it. Pure.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from typing import Final

_PREFIX: Final = "whsec_"
_SHORTEST: Final = 24
"""Bytes of a key, as the specification asks for."""


def webhook_key(text: str) -> bytes:
    """The key in a secret's text. Raises ``ValueError`` that says what is wrong without it."""
    try:
        key = b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < _SHORTEST:
        raise ValueError(f"is no secret: write {_PREFIX} and at least {_SHORTEST} bytes as base64")
    return key


def signature(key: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """For the header ``webhook-signature``."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode()
