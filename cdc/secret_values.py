"""Settings that hold a secret from a file: what the file says when a connection is opened.

A password is changed while processes run. Whoever opens a connection asks ``latest`` for the
setting that the configuration gave it, so that no restart is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_READ_AGAIN: Final[dict[str, dict[str, Callable[[], str]]]] = {}


def remember(value: str, text: str, read_again: Callable[[], str]) -> None:
    """``text`` of the configuration was filled to ``value``; ``read_again`` fills it anew, or
    raises ``ValueError``."""
    _READ_AGAIN.setdefault(value, {})[text] = read_again


def latest(value: str) -> str:
    """The setting as its files have it now. As it was given, if it is of no file, or while one
    cannot be read: it may just be written. Also where several settings had this value, and have
    different ones now: no server is sent the password of another."""
    try:
        found = {read_again() for read_again in list(_READ_AGAIN.get(value, {}).values())}
    except ValueError:
        return value
    return found.pop() if len(found) == 1 else value
