"""Where a transcriber stands between two frames. Pure."""

from __future__ import annotations

from typing import NamedTuple

from cdc.events.envelope import Transaction


class Standing(NamedTuple):
    """A transcriber's place in the stream: the open transaction, the newest one's commit LSN and
    its last ordinal, and where the last complete one ended."""

    transaction: Transaction | None
    commit_lsn: int
    ordinal: int
    previous_end: int | None
