"""The newest records of each key of a large batch, found where records are read.

Most of a backlog's records are overtaken in the same batch. Spark would parse each of them, sort
them all by key and then let nine of ten go. Here the tasks read the topic's stretches themselves
and keep, of each key, the record that stands last: by its position, which is all that is read of
an event, never by its offset. ``jobs.fold`` does the rest, and decides alone what a record is
worth: what is no event, or may not be overtaken in silence, is kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.kafka.stretches import Raw, Stretch, read_stretch, reading
from jobs.fold import OLDEST_US, RECORDS, SNAPSHOT

if TYPE_CHECKING:  # tasks need neither, and wait for what is imported
    from cdc.config import Kafka
    from cdc.kafka.broker import Offsets

_LEAST_RECORDS: Final = 50_000
"""A stretch is not divided further: each part finds a newest record of its own."""
_HELD_BYTES: Final = 256 << 20
"""Of records, by all tasks together; one that holds its share hands over what it has so far."""
_OVERHEAD_BYTES: Final = 400
"""Of a record that is held, beside key and value."""
_BATCH_BYTES: Final = 8 << 20
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        (RECORDS, pa.int64()),
        (OLDEST_US, pa.int64()),
    ]
)
_DDL: Final = (
    "key binary, value binary, topic string, `partition` int, `offset` bigint,"
    f" {RECORDS} bigint, {OLDEST_US} bigint"
)


class _Source(msgspec.Struct, gc=False):
    commit_lsn: int
    ordinal: int
    schema_id: str
    ts_us: int | None = None


class _Event(msgspec.Struct, gc=False):
    op: str
    source: _Source


_decoded: Final = msgspec.json.Decoder(_Event).decode


class Newest:
    """The newest of some records: how many there were, and when the oldest streamed one was
    committed, in microseconds since 1970."""

    __slots__ = ("key", "offset", "oldest_us", "position", "records", "value")

    def __init__(
        self,
        key: bytes | None,
        value: bytes,
        offset: int,
        position: tuple[int, int] = (0, 0),
        oldest_us: int | None = None,
    ) -> None:
        self.key, self.value, self.offset = key, value, offset
        self.position, self.oldest_us, self.records = position, oldest_us, 1

    @property
    def bytes(self) -> int:
        """What it takes to hold it."""
        return len(self.key or b"") + len(self.value) + _OVERHEAD_BYTES


def newest_records(
    spark: SparkSession, kafka: Kafka, begin: Offsets, end: Offsets, refused: Collection[str]
) -> DataFrame:
    """The records of topics from ``begin`` up to ``end`` without tombstones and without those that
    a later one of their key overtakes, as the Kafka source has them; with ``records`` and
    ``oldest_us``, see ``jobs.fold.parse``. Nothing is read before its rows are.

    Events of ``refused`` versions are all there, as is what is no event. A key may be there more
    than once. What Kafka does not hold any more is a fault of the job that reads.
    """
    stretches = divided(begin, end, spark.sparkContext.defaultParallelism)
    most_bytes = _HELD_BYTES // max(len(stretches), 1)
    settings, refused = reading(kafka.bootstrap_servers, kafka), frozenset(refused)

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                stretch = stretches[number]
                for found in newest(read_stretch(settings, stretch), refused, most_bytes):
                    yield from _batches(stretch, found)

    return spark.range(0, len(stretches), 1, len(stretches)).mapInArrow(read, _DDL)


def divided(begin: Offsets, end: Offsets, tasks: int) -> list[Stretch]:
    """About as many stretches of about the same length as there are to be tasks; never fewer than
    partitions that have something. What ``begin`` does not name counts from 0."""
    whole = [
        Stretch(topic, partition, begin.get(topic, {}).get(partition, 0), high)
        for topic, of_topic in end.items()
        for partition, high in of_topic.items()
    ]
    records = sum(one.end - one.begin for one in whole)
    size = max(records / max(tasks, 1), _LEAST_RECORDS)
    return [part for one in whole if one.end > one.begin for part in _parts(one, size)]


def _parts(stretch: Stretch, size: float) -> Iterator[Stretch]:
    topic, partition, begin, end = stretch
    count = max(1, round((end - begin) / size))
    ends = [begin + (end - begin) * part // count for part in range(count + 1)]
    for low, high in pairwise(ends):
        yield Stretch(topic, partition, low, high)


def newest(
    read: Iterable[list[Raw]], refused: Collection[str], most_bytes: int
) -> Iterator[list[Newest]]:
    """Of each key and version the newest record, and every one that cannot be told or is of a
    ``refused`` version; all that is held, as soon as that is more than ``most_bytes``.

    Keys of two versions are told apart: columns may have exchanged their names in between.
    """
    versions = dict[str, dict[bytes | None, Newest]]()
    aside, held_bytes = list[Newest](), 0
    for records in read:
        for key, value, offset in records:
            if value is None:
                continue
            try:
                event = _decoded(value)
            except (msgspec.DecodeError, UnicodeDecodeError):
                aside.append(one := Newest(key, value, offset))
                held_bytes += one.bytes
                continue
            source = event.source
            position, id_ = (source.commit_lsn, source.ordinal), source.schema_id
            committed_us = None if event.op == SNAPSHOT else source.ts_us
            held = versions.get(id_)
            if held is None:
                held = versions[id_] = {}
            known = held.get(key)
            if known is None or id_ in refused:
                one = Newest(key, value, offset, position, committed_us)
                held_bytes += one.bytes
                if id_ in refused:
                    aside.append(one)
                else:
                    held[key] = one
                continue
            known.records += 1
            if position >= known.position:
                held_bytes += len(value) - len(known.value)
                known.value, known.offset, known.position = value, offset, position
            if committed_us is not None and (
                known.oldest_us is None or committed_us < known.oldest_us
            ):
                known.oldest_us = committed_us
        if held_bytes > most_bytes:
            yield _all(versions, aside)
            versions, aside, held_bytes = {}, [], 0
    yield _all(versions, aside)


def _all(versions: dict[str, dict[bytes | None, Newest]], aside: list[Newest]) -> list[Newest]:
    return [*(one for held in versions.values() for one in held.values()), *aside]


def _batches(stretch: Stretch, found: list[Newest]) -> Iterator[pa.RecordBatch]:
    """As Arrow batches of a few megabytes."""
    some, size = list[Newest](), 0
    for one in found:
        some.append(one)
        size += one.bytes
        if size > _BATCH_BYTES:
            yield _batch(stretch, some)
            some, size = [], 0
    if some:
        yield _batch(stretch, some)


def _batch(stretch: Stretch, found: list[Newest]) -> pa.RecordBatch:
    fields: dict[str, Callable[[Newest], Any]] = {
        "key": lambda one: one.key,
        "value": lambda one: one.value,
        "topic": lambda _: stretch.topic,
        "partition": lambda _: stretch.partition,
        "offset": lambda one: one.offset,
        RECORDS: lambda one: one.records,
        OLDEST_US: lambda one: one.oldest_us,
    }
    arrays = [pa.array(map(fields[field.name], found), field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
