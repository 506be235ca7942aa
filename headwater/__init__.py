"""Headwater for applications: read your own writes.

    import headwater

    with headwater.Views("headwater.toml") as views:
        conn.execute("update orders set shipped = true where id = 7")
        conn.commit()
        views.wait("open_orders", lsn=headwater.current_lsn(conn), timeout_s=5)

When ``wait`` returns, the view holds everything that was committed before ``current_lsn`` was
asked. ``NotReachedError`` says what it lacks after ``timeout_s``, ``StoppedError`` at once that a
fault has ended it.
"""

from cdc.errors import HeadwaterError, UsageError
from verification.reach import NotReachedError, StoppedError
from verification.waiting import Reached, Views, current_lsn

__all__ = [
    "HeadwaterError",
    "NotReachedError",
    "Reached",
    "StoppedError",
    "UsageError",
    "Views",
    "current_lsn",
]
