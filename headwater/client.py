"""What applications import, as ``headwater``: read your own writes."""

from cdc.errors import HeadwaterError, UsageError
from verification.read_your_writes import Reached, Views, current_lsn
from verification.view_positions import NotReachedError, StoppedError

__all__ = [
    "HeadwaterError",
    "NotReachedError",
    "Reached",
    "StoppedError",
    "UsageError",
    "Views",
    "current_lsn",
]
