"""What applications import, as ``headwater``: read your own writes."""

from cdc.errors import HeadwaterError, UsageError
from verification.reach import NotReachedError, StoppedError
from verification.read_your_writes import Reached, Views, current_lsn

__all__ = [
    "HeadwaterError",
    "NotReachedError",
    "Reached",
    "StoppedError",
    "UsageError",
    "Views",
    "current_lsn",
]
