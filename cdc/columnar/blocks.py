"""Keys and values of a stretch as blocks of records, with the partition of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cdc.columnar.arrays import Ints, Mask, objects_of, sizes_of
from cdc.columnar.partitions import partitions_for
from cdc.records import Block

LARGEST_BYTES: Final = 1 << 16
"""A record above this leaves the columns: what is to be done with large ones is decided one by
one, and copying them is what they cost anyway."""


class Events:
    """Events of one kind of one table: ``at`` are their places among all rows of the stretch."""

    __slots__ = ("at", "keys", "values")

    def __init__(self, at: Ints, keys: Any, values: Any) -> None:
        self.at = at
        self.keys = keys
        self.values = values

    @property
    def largest_bytes(self) -> int:
        """Size of the largest value and the largest key together."""
        return sum(
            int(sizes_of(array).max()) for array in (self.values, self.keys) if array is not None
        )


def block(events: list[Events], deletes: list[bool], times_ms: Ints, partitions: int) -> Block:
    """The records of a table in order, tombstones behind their deletes.

    ``deletes`` says which of ``events`` are deletes; ``times_ms`` is of every row of the stretch.
    """
    at = np.concatenate([part.at for part in events])
    order = np.argsort(at, kind="stable")
    keyed = events[0].keys is not None
    dead: Mask = np.concatenate(
        [np.full(len(p.at), gone and keyed) for p, gone in zip(events, deletes, strict=True)]
    )[order]
    copies = np.repeat(order, 1 + dead) if dead.any() else order
    values = _objects([part.values for part in events])[copies]
    if dead.any():
        last = np.cumsum(1 + dead) - 1
        values[last[dead]] = None
    sizes = sum(int(sizes_of(part.values).sum()) for part in events)
    if keyed:
        keys = _objects([part.keys for part in events])[copies]
        chosen = np.concatenate([partitions_for(part.keys, partitions) for part in events])[copies]
        sizes += sum(int(sizes_of(part.keys).sum()) for part in events)
    else:
        keys = np.full(len(copies), None, object)
        chosen = np.zeros(len(copies), np.int64)
    return Block(
        keys.tolist(),
        values.tolist(),
        chosen.tolist(),
        times_ms[at[copies]].tolist(),
        sizes,
        _closing(chosen),
    )


def _closing(partitions: Ints) -> dict[int, int]:
    """The last record of each partition, by its index, and how many records the partition got."""
    found, counts = np.unique(partitions, return_counts=True)
    last = [int(np.flatnonzero(partitions == partition)[-1]) for partition in found]
    return dict(zip(last, counts.tolist(), strict=True))


def _objects(arrays: list[Any]) -> Any:
    parts = [objects_of(array) for array in arrays]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
