"""Settings that hold a secret from a file: what the file says when a connection is opened.

A password is changed while processes run. Whoever opens a connection asks ``latest`` for the
setting that the configuration gave it, so that no restart is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_READ_AGAIN: Final[dict[str, Callable[[], str]]] = {}


def remember(value: str, read_again: Callable[[], str]) -> None:
    """``value`` was filled from files; ``read_again`` fills it anew, or raises ``ValueError``."""
    _READ_AGAIN[value] = read_again


def latest(value: str) -> str:
    """The setting as its files have it now. As it was given, if it is of no file, or while one
    cannot be read: it may just be written."""
    read_again = _READ_AGAIN.get(value)
    if read_again is None:
        return value
    try:
        return read_again()
    except ValueError:
        return value
