"""The partition of each record, named: the client would choose among those that the topic has by
then, and keys would go on in other ones, out of their order, as soon as somebody adds some. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from cdc.columnar.partitions import partitions_for
from cdc.events.records import Block, Record
from cdc.topics import partition_for

ANY: Final = -1
"""The client chooses."""
_LEAST: Final = 40
"""Fewer keys are faster one by one."""


def placed(records: Sequence[Record | Block], partitions: int) -> list[int]:
    """The partition of each of ``records`` of a topic that had ``partitions`` when its owner began
    to write to it; ``ANY`` of a block, which says its own, and of what names none in a topic of
    which that number is not known (0)."""
    found, unnamed, keys = [ANY] * len(records), list[int](), list[bytes | None]()
    for at, record in enumerate(records):
        if isinstance(record, Block):
            continue
        found[at] = record.get("partition", ANY)
        if found[at] == ANY and partitions:
            unnamed.append(at)
            keys.append(record["key"])
    for at, partition in zip(unnamed, _of_keys(keys, partitions), strict=True):
        found[at] = partition
    return found


def _of_keys(keys: Sequence[bytes | None], partitions: int) -> list[int]:
    if len(keys) < _LEAST or None in keys:
        return [partition_for(key, partitions) for key in keys]
    chosen: list[int] = partitions_for(pa.array(keys, pa.binary()), partitions).tolist()
    return chosen
