"""Headwater for applications: read your own writes, and ask how late views are.

    import headwater

    with headwater.Views("headwater.toml") as views:
        conn.execute("update orders set shipped = true where id = 7")
        conn.commit()
        views.wait("open_orders", lsn=headwater.current_lsn(conn), timeout_s=5)
        late_s = views.lag("open_orders")["open_orders"].behind_s

When ``wait`` returns, the view holds everything that was committed before ``current_lsn`` was
asked. ``NotReachedError`` says what it lacks after ``timeout_s``, ``StoppedError`` at once that a
fault has ended it. ``lag`` gives a ``ViewLag`` for each view. ``decrypt`` reads a column that
``source.columns`` encrypts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client import (
        HeadwaterError,
        NotReachedError,
        Reached,
        State,
        StoppedError,
        UsageError,
        ViewLag,
        Views,
        current_lsn,
        decrypt,
    )

__all__ = [
    "HeadwaterError",
    "NotReachedError",
    "Reached",
    "State",
    "StoppedError",
    "UsageError",
    "ViewLag",
    "Views",
    "current_lsn",
    "decrypt",
]


def __getattr__(name: str) -> object:
    """A name of ``headwater.client``, imported when it is first used: commands need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("headwater.client"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
