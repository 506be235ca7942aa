"""Keys and values of a stretch as blocks of records, with the partition of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from cdc.columnar.arrays import Ints, Mask, sizes_of, texts_of
from cdc.columnar.partitions import partitions_for
from cdc.events.records import Block

LARGEST_BYTES: Final = 1 << 16
"""A record above this leaves the columns: what is to be done with large ones is decided one by
one, and copying them is what they cost anyway."""


class Events:
    """Events of one kind of one table: ``at`` are their places among all rows of the stretch,
    ``by`` is what chooses their partitions, by default their keys."""

    __slots__ = ("at", "by", "keys", "values")

    def __init__(self, at: Ints, keys: Any, values: Any, by: Any = None) -> None:
        self.at = at
        self.by = keys if by is None else by
        self.keys = keys
        self.values = values

    @property
    def largest_bytes(self) -> int:
        """Size of the largest value and the largest key together."""
        return sum(
            int(sizes_of(array).max()) for array in (self.values, self.keys) if array is not None
        )


def block(
    events: list[Events], deletes: list[bool], partitions: int, *, tombstones: bool = True
) -> Block:
    """The records of a topic in order, with ``tombstones`` behind their deletes.

    ``deletes`` says which of ``events`` are deletes.
    """
    at = np.concatenate([part.at for part in events])
    values = [text for part in events for text in texts_of(part.values)]
    keys = [key for part in events for key in _keys(part)]
    chosen: Ints = np.concatenate([_partitions(part, partitions) for part in events])
    final: list[bytes | None] = list(values)
    followed = [
        gone and tombstones and part.keys is not None
        for part, gone in zip(events, deletes, strict=True)
    ]
    if len(events) > 1 or followed[0]:
        dead = [one for part, one in zip(events, followed, strict=True) for _ in part.at]
        order, is_tombstone = _with_tombstones(at, np.array(dead))
        rows = order.tolist()
        keys = [keys[i] for i in rows]
        final = [None if dead else values[i] for i, dead in zip(rows, is_tombstone, strict=True)]
        chosen = chosen[order]
    arrays = [array for part in events for array in (part.values, part.keys) if array is not None]
    size = sum(int(sizes_of(array).sum()) for array in arrays)
    return Block(keys, final, chosen.tolist(), size, _closing(chosen))


def _keys(part: Events) -> Sequence[bytes | None]:
    return [None] * len(part.at) if part.keys is None else texts_of(part.keys)


def _partitions(part: Events, partitions: int) -> Ints:
    """Events without a key keep their order in partition 0."""
    if part.keys is None:
        return np.zeros(len(part.at), np.int64)
    return partitions_for(part.by, partitions)


def _with_tombstones(at: Ints, dead: Mask) -> tuple[Ints, list[bool]]:
    """The order of records, each delete's twice, and which of them are tombstones."""
    order = np.argsort(at, kind="stable")
    copies = 1 + dead[order]
    tombstone = np.zeros(int(copies.sum()), np.bool_)
    tombstone[(np.cumsum(copies) - 1)[dead[order]]] = True
    return np.repeat(order, copies), tombstone.tolist()


def _closing(partitions: Ints) -> dict[int, int]:
    """The last record of each partition, by its index, and how many records the partition got."""
    found, counts = np.unique(partitions, return_counts=True)
    last = [int(np.flatnonzero(partitions == partition)[-1]) for partition in found]
    return dict(zip(last, counts.tolist(), strict=True))
