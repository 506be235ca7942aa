"""Kafka's partition of many keys at once, as ``cdc.topics.partition_for`` of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdc.columnar.arrays import data_of, offsets_of
from cdc.topics import FRAME_BYTES

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)


def partitions_for(keys: Any, partitions: int) -> npt.NDArray[np.int64]:
    """The partition of each key; ``keys`` is an Arrow array of binary without nulls."""
    hashes = murmur2(keys, framed=True) & np.uint32(0x7FFFFFFF)
    return hashes.astype(np.int64) % partitions


def murmur2(keys: Any, *, framed: bool = False) -> npt.NDArray[np.uint32]:
    """MurmurHash2 as Kafka's Java client computes it, of each element; ``framed``: without the
    schema's id that it may begin with."""
    edges = offsets_of(keys)
    starts, ends = edges[:-1], edges[1:]
    # Four bytes more than there are, so that the last word can be read whole.
    data = np.append(data_of(keys), np.zeros(4, np.uint8))
    if framed:
        has_id = (data[starts] == 0) & (ends > starts)
        starts = np.minimum(starts + FRAME_BYTES * has_id, ends)
    sizes = ends - starts
    hashes = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    words = sizes // 4
    for word in range(int(words.max(initial=0))):
        on = np.flatnonzero(words > word)
        k = _words(data, starts[on] + 4 * word) * _M
        k ^= k >> np.uint32(24)
        hashes[on] = hashes[on] * _M ^ k * _M
    rest = np.flatnonzero(sizes % 4)
    last = _words(data, starts[rest] + 4 * words[rest])
    last &= (np.uint64(1) << (8 * (sizes[rest] % 4)).astype(np.uint64)).astype(
        np.uint32
    ) - np.uint32(1)
    hashes[rest] = (hashes[rest] ^ last) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _words(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    gathered = data[at[:, None] + np.arange(4)]
    words: npt.NDArray[np.uint32] = gathered.view("<u4").ravel().astype(np.uint32)
    return words
