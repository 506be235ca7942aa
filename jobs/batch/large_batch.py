"""A large batch: Spark's tasks read it from Kafka, fold it, and write what is left where it goes.

All records of a key stand in one partition, so nothing is moved between tasks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.config import Kafka
from cdc.errors import LogError
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Offsets
from cdc.kafka.event_reader import stretches
from cdc.kafka.partition_reader import LOST_HINT
from cdc.kafka.range_reader import Raw, read_stretch, reading
from jobs.batch.folded_rows import SCHEMA
from jobs.batch.task_fold import TooLargeError, batches, fold_part
from jobs.batch.task_parts import Part, divided
from jobs.spark.faults import stream_error
from jobs.spark.garbage_collector import collect_rarely

HELD_BYTES: Final = 256 << 20
"""Of records, by all tasks together. A task that would hold more reads its part in two halves."""
_DDL: Final = (
    "topic string, `partition` int, `offset` bigint, key string, op string, commit_lsn bigint,"
    " ordinal bigint, schema_id string, committed_us bigint, before string, after string,"
    " unchanged array<string>, read_lsn bigint, records bigint, oldest_us bigint, cause string"
)
_SAID: Final = pa.schema([("task", pa.int32()), ("said", pa.string())])

WritePartition = Callable[[int, Iterator[pa.RecordBatch]], int]
"""Called by a task with its number and its rows; it returns how many it wrote. It is pickled, runs
in another process, and on a cluster perhaps twice: what it does has to be one transaction."""


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """The records from ``begin`` up to ``end``, read when they are asked for."""

    spark: SparkSession
    kafka: Kafka
    begin: Offsets
    end: Offsets
    reader: EventReader | None = None

    def collect(self) -> pa.Table:
        """All rows, of ``jobs.batch.folded_rows.SCHEMA``, in the driver.

        Raises what the tasks raise, as ``write``: ``LogError`` where Kafka does not hold the
        records, ``RetryableError`` where it does not answer.
        """
        if str(self.spark.sparkContext.master).startswith("local"):
            return self._by_files()
        read = self._read

        def rows(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in _numbers(numbers):
                yield from read(number)

        with _translated():
            return self._tasks().mapInArrow(rows, _DDL).toArrow().cast(SCHEMA)

    def _by_files(self) -> pa.Table:
        """Through files: the JVM's heap is a small batch's, and rows need not go through it."""
        with tempfile.TemporaryDirectory(prefix="headwater-batch-") as directory:
            self.write(partial(_to_file, directory))
            tables = [_from_file(f"{directory}/{number}") for number in range(self.tasks)]
        return pa.concat_tables(tables)

    def write(self, write_partition: WritePartition) -> list[int]:
        """Have each task write its rows; how many each wrote, by its number."""
        return [int(said) for said in self.each(partial(_written, write_partition))]

    def each(self, task: Callable[[int, Iterator[pa.RecordBatch]], str]) -> list[str]:
        """What each task says of its rows, by its number; ``task`` is a ``WritePartition`` but for
        what it returns."""
        read = self._read

        def rows(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in _numbers(numbers):
                said = task(number, read(number))
                yield pa.RecordBatch.from_pydict({"task": [number], "said": [said]}, _SAID)

        with _translated():
            found = self._tasks().mapInArrow(rows, "task int, said string").collect()
        return [row["said"] for row in sorted(found)]

    @property
    def tasks(self) -> int:
        """How many tasks read it."""
        return len(self._parts())

    @property
    def _read(self) -> Callable[[int], Iterator[pa.RecordBatch]]:
        reader = None if self.reader is None else self.reader.for_tasks()
        return _reader(self.kafka, self._parts(), reader)

    def _parts(self) -> list[list[Part]]:
        return divided(self.begin, self.end, self.spark.sparkContext.defaultParallelism)

    def _tasks(self) -> DataFrame:
        return self.spark.range(0, self.tasks, 1, self.tasks)


def _reader(
    kafka: Kafka, parts: list[list[Part]], reader: EventReader | None
) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """What a task reads by: without anything that cannot be pickled."""
    settings = reading(kafka.bootstrap_servers, kafka)
    most_bytes = HELD_BYTES // max(len(parts), 1)

    def read(task: int) -> Iterator[pa.RecordBatch]:
        collect_rarely()
        left = list(parts[task])
        while left:
            part = left.pop()
            try:
                fold = fold_part(part, most_bytes, partial(_records, settings, part, reader))
            except TooLargeError:
                left += part.halves()
                continue
            except LogError as error:
                raise LogError(error.message, LOST_HINT) from None
            yield from batches(part, fold.rows())

    return read


def _records(
    settings: Mapping[str, str | int | bool], part: Part, reader: EventReader | None
) -> Iterable[Iterable[Raw]]:
    return stretches(reader, part.stretch.topic, read_stretch(settings, part.stretch))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise stream_error(error) from None


def _written(write_partition: WritePartition, task: int, found: Iterator[pa.RecordBatch]) -> str:
    return str(write_partition(task, found))


def _to_file(directory: str, task: int, found: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    with pa.ipc.new_file(f"{directory}/{task}", SCHEMA) as file:
        for batch in found:
            file.write_batch(batch)
            rows += batch.num_rows
    return rows


def _from_file(path: str) -> pa.Table:
    """Mapped: what is deleted stays until it is let go of."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _numbers(numbers: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in numbers:
        yield from batch.column(0).to_pylist()
