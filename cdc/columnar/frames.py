"""XLogData frames side by side in one buffer, and the stretches of them that are plain."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdc.columnar.arrays import Ints, Mask
from cdc.protocol.messages import POSTGRES_EPOCH_US
from cdc.protocol.wire import Arrived

HEADER: Final = 25
"""Bytes of an XLogData frame before pgoutput's own: kind, WAL start, WAL end, clock."""
_BEGIN_BYTES: Final = HEADER + 21
_COMMIT_BYTES: Final = HEADER + 26
_ROW_BYTES: Final = HEADER + 8

BEGIN, COMMIT, INSERT, UPDATE, DELETE = b"BCIUD"
_NEW, _KEY, _OLD = b"NKO"


class Frames:
    """Frames of one read as arrays: ``starts`` and ``ends`` are offsets in ``buffer``."""

    __slots__ = ("buffer", "data", "ends", "kinds", "starts")

    def __init__(self, arrived: Arrived) -> None:
        self.buffer = arrived.buffer
        self.data: npt.NDArray[np.uint8] = np.frombuffer(self.buffer, np.uint8)
        self.starts: Ints = np.array(arrived.starts, np.int64)
        self.ends: Ints = np.array(arrived.ends, np.int64)
        self.kinds: npt.NDArray[np.uint8] = self.data[self.starts + HEADER]

    def stretches(self) -> Iterator[tuple[int, int, bool]]:
        """From frame, to frame, whether all between are plain; together they are all frames."""
        plain = self._plain()
        cuts = np.flatnonzero(plain[1:] != plain[:-1]) + 1
        edges = [0, *cuts.tolist(), len(plain)]
        for start, stop in pairwise(edges):
            yield start, stop, bool(plain[start])

    def unsigned(self, at: Ints, size: int) -> Ints:
        """Big-endian numbers of ``size`` bytes (4 or 8) at these offsets."""
        gathered = self.data[at[:, None] + np.arange(size)]
        numbers: Ints = gathered.view(f">u{size}").ravel().astype(np.int64)
        return numbers

    def _plain(self) -> Mask:
        """Which frames have the size and the form that columns are read from."""
        kinds, sizes = self.kinds, self.ends - self.starts
        form = self.data[self.starts + HEADER + 5]
        row = (kinds == INSERT) | (kinds == UPDATE)
        plain: Mask = row & (form == _NEW)
        plain |= (kinds == DELETE) & ((form == _KEY) | (form == _OLD))
        plain &= sizes >= _ROW_BYTES
        plain |= (kinds == BEGIN) & (sizes == _BEGIN_BYTES)
        plain |= (kinds == COMMIT) & (sizes == _COMMIT_BYTES)
        return plain


class Begins(NamedTuple):
    """What BEGIN messages say, one element each; see ``cdc.protocol.messages.Begin``."""

    commit_lsn: Ints
    commit_us: Ints
    xid: Ints


def begins(frames: Frames, indices: Ints) -> Begins:
    """The BEGIN messages among frames."""
    at = frames.starts[indices] + HEADER + 1
    commit_us = frames.unsigned(at + 8, 8) + POSTGRES_EPOCH_US
    return Begins(frames.unsigned(at, 8), commit_us, frames.unsigned(at + 16, 4))


def commits(frames: Frames, indices: Ints) -> tuple[Ints, Ints]:
    """Commit LSN and end LSN of the COMMIT messages among frames."""
    at = frames.starts[indices] + HEADER + 2
    return frames.unsigned(at, 8), frames.unsigned(at + 8, 8)
