"""What applications import, as ``headwater``: read your own writes, and decrypt."""

from cdc.errors import HeadwaterError, UsageError
from cdc.protocol.treatment import decrypt
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
    "decrypt",
]
