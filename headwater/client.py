"""What applications import, as ``headwater``: read your own writes, lag of views, and decrypt."""

from cdc.errors import HeadwaterError, UsageError
from cdc.lag.states import State
from cdc.protocol.treatment import decrypt
from headwater.lag.view_lag import ViewLag
from headwater.view_client import Reached, Views, current_lsn
from verification.view_positions import NotReachedError, StoppedError

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
