"""A small batch: the driver has its records, and folds them as a task does those of a large one."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Raw, Stretch
from jobs.batch.folded_rows import SCHEMA
from jobs.batch.task_fold import batches, fold_part
from jobs.batch.task_parts import Part


def fold(records: Iterable[FetchedRecord]) -> pa.Table:
    """The rows of ``jobs.batch.folded_rows.SCHEMA`` that the records amount to."""
    return pa.Table.from_batches(_folded(records), SCHEMA)


def _folded(records: Iterable[FetchedRecord]) -> Iterator[pa.RecordBatch]:
    found: defaultdict[tuple[str, int], list[Raw]] = defaultdict(list)
    for one in records:
        found[one.topic, one.partition].append((one.key, one.value, one.offset))
    for (topic, partition), raw in found.items():
        part = Part(Stretch(topic, partition, raw[0][2], raw[-1][2] + 1))
        yield from batches(part, fold_part(part, sys.maxsize, partial(iter, [raw])).rows())
