"""Every change of a stretch of a topic, in place of the last one of each key: for histories. Pure.

Values that an update left out are put in from the change before it, as far as the stretch has that
and both are of one table version: in another one columns may have other names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import pyarrow as pa

from cdc.config import Kafka
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Offsets
from cdc.kafka.event_reader import stretches
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Raw, Stretch, read_stretch, reading
from jobs.batch.folded_rows import SCHEMA
from jobs.batch.task_fold import OVERHEAD_BYTES, Last, TooLargeError, batches, read_event
from jobs.batch.task_parts import Part, divided

_HELD_BYTES: Final = 64 << 20
"""Of records that are held together; a part that is larger is read in two halves."""


def of_records(records: Iterable[FetchedRecord], topics: Collection[str]) -> Iterator[pa.Table]:
    """The changes of some topics among records at hand, a table for each partition."""
    found: defaultdict[tuple[str, int], list[Raw]] = defaultdict(list)
    for one in records:
        if one.topic in topics:
            found[one.topic, one.partition].append((one.key, one.value, one.offset))
    for (topic, partition), raw in found.items():
        every = EveryChange(Part(Stretch(topic, partition, 0, 0)), sum(map(_size, raw)) << 2)
        every.add(raw)
        yield every.table()


def of_stretches(
    kafka: Kafka,
    begin: Offsets,
    end: Offsets,
    topics: Collection[str],
    reader: EventReader | None = None,
) -> Iterator[pa.Table]:
    """The changes of some topics between two offsets, read here; tables of some megabytes, each
    with all changes of its keys. Raises what ``read_stretch`` does."""
    wanted = {topic: of_topic for topic, of_topic in end.items() if topic in topics}
    left = [part for parts in divided(begin, wanted, 1) for part in parts]
    settings = reading(kafka.bootstrap_servers, kafka)
    while left:
        part = left.pop(0)
        every = EveryChange(part, _HELD_BYTES)
        try:
            read = read_stretch(settings, part.stretch)
            for records in stretches(reader, part.stretch.topic, read):
                every.add(records)
        except TooLargeError:
            left = [*part.halves(), *left]
            continue
        yield every.table()


def _size(record: Raw) -> int:
    key, value, _ = record
    return len(key or b"") + len(value or b"") + OVERHEAD_BYTES


class EveryChange:
    """The changes of one part of a partition. What is no event is left out."""

    def __init__(self, part: Part, most_bytes: int) -> None:
        self._part, self._most_bytes = part, most_bytes
        self._found: list[Last] = []
        self._held_bytes = 0
        self._is_partial = False

    def add(self, records: Iterable[Raw]) -> None:
        """Raises ``TooLargeError`` as soon as more is held than may be."""
        for key, value, offset in records:
            if value is None or not self._part.has(key, offset):
                continue
            if (one := read_event(key, value, offset)) is None:
                continue
            self._found.append(one)
            self._held_bytes += one.size
            assert one.event is not None, "what was read is an event"
            self._is_partial = self._is_partial or bool(one.event.source.unchanged)
        if self._held_bytes > self._most_bytes:
            raise TooLargeError

    def table(self) -> pa.Table:
        """Rows of ``jobs.batch.folded_rows.SCHEMA``, each of one record, in the order of
        positions."""
        self._found.sort(key=lambda one: one.at)
        if self._is_partial:
            _fill(self._found)
        return pa.Table.from_batches(self._batches(), SCHEMA)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return batches(self._part, self._found)


def _fill(changes: Iterable[Last]) -> None:
    """Give each change that leaves values out the image before it of its key and version."""
    before: dict[bytes | None, Last] = {}
    for one in changes:
        assert one.event is not None, "only events are here"
        source, last = one.event.source, before.get(one.key)
        if source.unchanged and last is not None and last.is_of(source.schema_id):
            one.earlier = [last.as_earlier()]
        before[one.key] = one
