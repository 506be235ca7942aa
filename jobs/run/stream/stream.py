"""The stream of a process: batch after batch of the topics of all mirrored tables.

A client of Kafka holds what comes next, and says where each partition ends. Small batches are what
it holds, folded here; large ones are read and folded by Spark's tasks. Where the stream begins is
said by whoever applies batches and keeps offsets with what it applied, so it needs no checkpoint
(``docs/decisions/0044``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from cdc.config import Kafka
from cdc.errors import HeadwaterError, RetryableError
from cdc.events.readers.records import EventReader
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import fetched
from cdc.kafka.partition_reader import FetchedRecord, PartitionReader
from jobs.batch.history_changes import of_records, of_stretches
from jobs.batch.large_batch import LargeBatch
from jobs.batch.small_batch import fold
from jobs.batch.thresholds import BATCH_RECORDS, FEW_ROWS, ROWS_HERE
from jobs.run.stream.start_offsets import checked
from jobs.spark.checkpoint import records_between
from jobs.spark.faults import stream_error
from jobs.spark.session import session_beside

INTERVAL_S: Final = 0.25
"""From the begin of a batch to that of the next one: what comes meanwhile is one batch."""
_WAIT_S: Final = 0.25
"""How soon a stream that has nothing to do notices that it is stopped."""
_LOOK_S: Final = 10.0
"""How often topics are looked at for partitions that are new."""
_CUT_OFF_S: Final = 10.0
"""In which a batch notices that its Spark jobs were cancelled."""
_JOBS: Final = "stream"
"""The group of the Spark jobs of batches, and the pool that they are scheduled in."""
_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class StreamBatch:
    """The records from ``begin`` up to ``end``, folded. Numbers begin at 0 with each start of the
    stream. Those of a ``large`` batch are read by Spark's tasks when they are asked for; of a small
    one ``records`` are all there were."""

    number: int
    begin: Offsets
    end: Offsets
    folded: pa.Table | LargeBatch
    records: Sequence[FetchedRecord] = ()
    epoch: int = 0
    """That of the reader which its events were read by (``EventReader.epoch``)."""

    def changes(self, topics: Collection[str]) -> Iterator[pa.Table]:
        """Every change of some topics, as ``jobs.batch.history_changes`` has them."""
        if not topics:
            return iter(())
        if isinstance(self.folded, LargeBatch):
            large = self.folded
            return of_stretches(large.kafka, self.begin, self.end, topics, large.reader)
        return of_records(self.records, topics)

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, of ``jobs.batch.folded_rows.SCHEMA``."""
        return self.folded.collect() if isinstance(self.folded, LargeBatch) else self.folded

    def pieces(self) -> Iterator[StreamBatch]:
        """The same records in batches whose rows may be in the driver."""
        large, count = self.large, records_between(self.begin, self.end)
        if large is None or count <= ROWS_HERE:
            yield self
            return
        number, begin = -(-count // ROWS_HERE), self.begin
        for part in range(1, number + 1):
            end = between(self.begin, self.end, part / number)
            if records_between(begin, end):
                piece = LargeBatch(large.spark, large.kafka, begin, end, large.reader)
                yield StreamBatch(self.number, begin, end, piece, epoch=self.epoch)
            begin = end

    @property
    def large(self) -> LargeBatch | None:
        """The batch, if its tasks had better write its rows."""
        return self.folded if isinstance(self.folded, LargeBatch) else None


def refuse_read_before(reader: EventReader | None, batch: StreamBatch) -> None:
    """Events whose positions hang on what mirrors were filled from are read again when one is
    filled: raises ``RetryableError``."""
    if reader is not None and batch.epoch != reader.epoch:
        raise RetryableError("mirrors were filled meanwhile", "wait: the batch is read again")


class OpenStream(Protocol):
    """What ``Engine`` needs of a ``Stream``."""

    def start(self, begin: Offsets) -> None: ...

    def error(self) -> HeadwaterError | None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Stream:
    """Use from one thread. ``apply`` is called for each batch, on a thread of the stream's, one at
    a time; what it raises ends the stream, and is ``error``. It commits the batch's ``end`` itself.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        apply: Callable[[StreamBatch], None],
        interval_s: float = INTERVAL_S,
        most_records: int = BATCH_RECORDS,
        reader: EventReader | None = None,
    ) -> None:
        self._kafka, self._apply, self._event_reader = kafka, apply, reader
        self._interval_s, self._most_records = interval_s, most_records
        self._session = session_beside(spark)
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        self._reader = PartitionReader(kafka.bootstrap_servers, kafka)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: HeadwaterError | None = None
        self._look = 0.0
        self._absent: set[str] = set()
        self.reached: Offsets = {}
        """Where the last batch ended that was applied."""

    def start(self, begin: Offsets) -> None:
        """Read the topics that ``begin`` names from there on; may be called again after ``stop``.

        Partitions that it does not name are read from their first record. Raises ``LogError`` where
        Kafka does not hold ``begin``, ``RetryableError`` where it does not answer, and while a
        batch goes on that ``stop`` could not end.
        """
        if self.active:
            raise RetryableError(
                "the stream's last batch has not ended yet", "wait: a store or Spark holds it up"
            )
        self._reader.close()  # of a topic that was recreated it may know where the old one ended
        self.reached, self._error = self._held_by_kafka(begin), None
        self._stopping.clear()
        self._absent.clear()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    def _held_by_kafka(self, begin: Offsets) -> Offsets:
        """With all partitions that the topics have by now."""
        with Broker(self._kafka.bootstrap_servers, self._kafka) as broker:
            return checked(broker, begin)

    def _run(self) -> None:
        """Until it is told to stop, or a batch fails."""
        number, began = 0, -self._interval_s
        try:
            context = self._session.sparkContext
            context.setLocalProperty("spark.scheduler.pool", _JOBS)
            context.setJobGroup(_JOBS, "a batch of the stream", interruptOnCancel=True)
            while self._waited(began):
                began, begin, end = time.monotonic(), self.reached, self._end()
                if records_between(begin, end) > 0:
                    epoch = 0 if self._event_reader is None else self._event_reader.epoch
                    folded, records = self._folded(begin, end)
                    self._apply(StreamBatch(number, begin, end, folded, records, epoch))
                    number += 1
                self.reached = end
        except Exception as error:
            if not self._stopping.is_set():
                self._error = stream_error(error)

    def _waited(self, began: float) -> bool:
        """Until there is something for the next batch, and it is time for it, ``_interval_s`` from
        when the last one ``began``. False when the stream is to stop."""
        while not self._stopping.is_set():
            self._take_up_partitions()
            if self._reader.has_more(self.reached, _WAIT_S):
                break
        return not self._stopping.wait(max(0.0, began + self._interval_s - time.monotonic()))

    def _take_up_partitions(self) -> None:
        """Those that topics have got since. A topic that is not there twice was deleted: that is
        told; a broker that has just started may not know it yet."""
        now = time.monotonic()
        if now < self._look:
            return
        found = self._reader.partitions(self.reached)
        absent = {topic for topic in self.reached if not found[topic]}
        more = any(found[topic] > len(known) for topic, known in self.reached.items())
        if more or absent & self._absent:
            self.reached = self._held_by_kafka(self.reached)
        self._absent, self._look = absent, now + _LOOK_S

    def _end(self) -> Offsets:
        """Where the next batch ends: as far as Kafka has records, unless these are too many."""
        return limited(self.reached, self._reader.ends(self.reached), self._most_records)

    def _folded(
        self, begin: Offsets, end: Offsets
    ) -> tuple[pa.Table | LargeBatch, Sequence[FetchedRecord]]:
        if records_between(begin, end) <= FEW_ROWS:
            read = self._reader.read(begin, end)
            if read is not None:
                records = fetched(self._event_reader, read)
                return fold(records), records
        return LargeBatch(self._session, self._kafka, begin, end, self._event_reader), ()

    @property
    def active(self) -> bool:
        """Whether the stream runs."""
        return self._thread is not None and self._thread.is_alive()

    def error(self) -> HeadwaterError | None:
        """Why the stream ended, None while it runs or if ``stop`` ended it."""
        return self._error

    def stop(self, limit_s: float = 60.0) -> None:
        """End the stream after the batch it is in; one that takes longer than ``limit_s`` is cut
        off, and what it has applied is up to its ``apply``."""
        self._stopping.set()
        if self._thread is None:
            return
        self._thread.join(limit_s)
        if self._thread.is_alive():
            self._session.sparkContext.cancelJobGroup(_JOBS)
            self._thread.join(_CUT_OFF_S)

    def close(self) -> None:
        """Stop, and release connections."""
        self.stop()
        if not self.active:
            self._reader.close()


def between(begin: Offsets, end: Offsets, part: float) -> Offsets:
    """The offsets where a part of all records lies before them, of each partition alike."""
    return {
        topic: {
            partition: low + round((high - low) * part)
            for partition, high in of_topic.items()
            for low in [begin.get(topic, {}).get(partition, 0)]
        }
        for topic, of_topic in end.items()
    }


def limited(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """``end``, or if there are more than ``most`` records the offsets before which there are about
    so many, of each partition alike: at least one of each that has some."""
    part = most / max(1, records_between(begin, end))
    if part >= 1:
        return end
    found: Offsets = {}
    for topic, of_topic in end.items():
        for partition, high in of_topic.items():
            low = begin.get(topic, {}).get(partition, 0)
            at = low + max(1, int((high - low) * part))
            found.setdefault(topic, {})[partition] = min(at, high)
    return found
