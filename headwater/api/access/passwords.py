"""Hashes of passwords (argon2id) and of tokens (SHA-256: they are random, and long)."""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

TOKEN_PREFIX: Final = "hw_"
SHORTEST_PASSWORD: Final = 12
LONGEST_PASSWORD: Final = 1_000
_HASHER: Final = PasswordHasher()


def hashed_password(password: str) -> str:
    """As the file of users has it."""
    return str(_HASHER.hash(password))


def is_password_hash(text: str) -> bool:
    """Whether it can be what ``hashed_password`` gave."""
    try:
        _HASHER.check_needs_rehash(text)
    except InvalidHashError:
        return False
    return text.startswith("$argon2id$")


def is_password(hashed: str | None, password: str) -> bool:
    """Whether it is the password; takes as long where there is no such user. Some 50 ms: for
    threads, few at a time."""
    try:
        _HASHER.verify(hashed or _of_nobody(), password)
    except (VerificationError, InvalidHashError):
        return False
    return hashed is not None


def fresh_token() -> str:
    """256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hashed_token(token: str) -> str:
    """As the file of users has it."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


@cache
def _of_nobody() -> str:
    return hashed_password(secrets.token_urlsafe(16))
