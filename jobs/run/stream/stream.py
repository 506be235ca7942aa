"""The stream of a process: one Structured Streaming query over the topics of all mirrored tables.

Spark's source says where a batch ends, its checkpoint numbers batches, and Spark folds what is in
them. The checkpoint is made for a run: where the stream begins is said by whoever applies batches
and keeps offsets with what it applied.

Between batches the query is held in its last one until Kafka has more. Asking Kafka five times a
second whether there is something took 3 to 5 % of a core; and a change waits for no trigger.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc.config import Kafka
from cdc.errors import HeadwaterError, RetryableError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.partition_reader import FetchedRecord, PartitionReader
from cdc.kafka.security import for_spark
from jobs.batch.history_changes import of_records, of_stretches
from jobs.batch.large_batch import LargeBatch
from jobs.batch.small_batch import SmallBatch
from jobs.batch.thresholds import BATCH_RECORDS, FEW_ROWS, ROWS_HERE
from jobs.run.stream.start_offsets import checked, earlier_by_one
from jobs.spark.checkpoint import batch_offsets, records_between
from jobs.spark.faults import stream_error
from jobs.spark.session import session_beside
from jobs.without_mirrors.snapshot_rows import offsets_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S: Final = 0.25
"""From the begin of a batch to that of the next one: what comes meanwhile is one batch."""
_ASK_S: Final = 1.0
_WAIT_S: Final = 0.25
"""How soon a stream that has nothing to do notices that it is stopped."""
_LOOK_S: Final = 30.0
"""How often topics are looked at for partitions that are new."""
_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "200ms",
    # Of a checkpoint that lives as long as the process nothing is read again.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
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

    def changes(self, topics: Collection[str]) -> Iterator[pa.Table]:
        """Every change of some topics, as ``jobs.batch.history_changes`` has them."""
        if not topics:
            return iter(())
        if isinstance(self.folded, LargeBatch):
            return of_stretches(self.folded.kafka, self.begin, self.end, topics)
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
                piece = LargeBatch(large.spark, large.kafka, begin, end)
                yield StreamBatch(self.number, begin, end, piece)
            begin = end

    @property
    def large(self) -> LargeBatch | None:
        """The batch, if its tasks had better write its rows."""
        return self.folded if isinstance(self.folded, LargeBatch) else None


class OpenStream(Protocol):
    """What ``Engine`` needs of a ``Stream``."""

    def start(self, begin: Offsets) -> None: ...

    def error(self) -> HeadwaterError | None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Stream:
    """Owns the query from ``start`` to ``stop``. Use from one thread.

    ``apply`` is called for each batch, on a thread of Spark's, one at a time; what it raises ends
    the stream, and is ``error``. It commits the batch's ``end`` itself.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        apply: Callable[[StreamBatch], None],
        interval_s: float = INTERVAL_S,
        most_records: int = BATCH_RECORDS,
    ) -> None:
        self._kafka, self._apply = kafka, apply
        self._interval_s, self._most_records = interval_s, most_records
        self._session = session_beside(spark)
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        self._small = SmallBatch(spark)
        self._reader = PartitionReader(kafka.bootstrap_servers, kafka)
        self._in_batch = threading.Lock()
        self._stopping = threading.Event()
        self._query: StreamingQuery | None = None
        self._checkpoint: Path | None = None
        self._error: HeadwaterError | None = None
        self._asked = 0.0
        self.reached: Offsets = {}
        """Where the last batch ended that was applied."""

    def start(self, begin: Offsets) -> None:
        """Read the topics that ``begin`` names from there on; may be called again after ``stop``.

        Partitions that it does not name are read from their first record. Raises ``LogError`` where
        Kafka does not hold ``begin``, ``RetryableError`` where it does not answer.
        """
        with Broker(self._kafka.bootstrap_servers, self._kafka) as broker:
            found = checked(broker, begin)
        self.reached, self._error = found.begin, None
        self._stopping.clear()
        self._checkpoint = Path(tempfile.mkdtemp(prefix="headwater-stream-"))
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", "stream")
        records = (
            self._session.readStream.format("kafka")
            .options(**for_spark(self._kafka.bootstrap_servers, self._kafka))
            .option("subscribe", ",".join(found.begin))
            .option("startingOffsets", offsets_json(earlier_by_one(found)))
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", self._most_records)
            .option("kafka.fetch.max.wait.ms", "20")
            .load()
        )
        self._query = (
            records.writeStream.queryName("stream")
            .option("checkpointLocation", str(self._checkpoint))
            .foreachBatch(self._batch)
            .start()
        )

    def _batch(self, _: DataFrame, number: int) -> None:
        """Called by Spark for each micro-batch, on a thread of its own."""
        began = time.monotonic()
        try:
            with self._in_batch:
                if self._stopping.is_set():
                    raise RuntimeError("stopping: this batch is for the next start")
                self._run(number)
            self._wait(began)
        except Exception as error:
            if self._error is None and not self._stopping.is_set():
                self._error = stream_error(error)
            raise

    def _run(self, number: int) -> None:
        assert self._checkpoint is not None, "only `start` starts the query"
        begin = self.reached
        end = batch_offsets(self._checkpoint, number)
        if records_between(begin, end) > 0:  # none in the first batch, see `earlier_by_one`
            self._apply(StreamBatch(number, begin, end, *self._folded(begin, end)))
        self.reached = end

    def _folded(
        self, begin: Offsets, end: Offsets
    ) -> tuple[pa.Table | LargeBatch, Sequence[FetchedRecord]]:
        if records_between(begin, end) <= FEW_ROWS:
            records = self._reader.read(begin, end)
            if records is not None:
                return self._small.fold(records), records
        return LargeBatch(self._session, self._kafka, begin, end), ()

    def _wait(self, began: float) -> None:
        """Until there is something for the next batch, and it is time for it."""
        look = time.monotonic() + _LOOK_S
        while not self._stopping.is_set() and not self._reader.has_more(self.reached, _WAIT_S):
            if time.monotonic() > look:
                if self._reader.partitions(self.reached) != _counts(self.reached):
                    return  # Spark's source sees to it
                look = time.monotonic() + _LOOK_S
        self._stopping.wait(max(0.0, began + self._interval_s - time.monotonic()))

    @property
    def active(self) -> bool:
        """Whether the stream runs."""
        return self._query is not None and self._query.isActive

    def error(self) -> HeadwaterError | None:
        """Why the stream ended, None while it runs or if ``stop`` ended it. Spark itself is asked
        once a second, however often this is."""
        now = time.monotonic()
        if self._error is None and self._query is not None and now >= self._asked + _ASK_S:
            self._asked = now
            if not self._stopping.is_set() and not self._query.isActive:
                self._error = self._ended(self._query)
        return self._error

    def _ended(self, query: StreamingQuery) -> HeadwaterError:
        """Why it did; a batch's own error is there before the query has ended with it."""
        if self._error is not None:
            return self._error
        if (cause := query.exception()) is None:
            return RetryableError("the stream was ended from outside", "start it again")
        return stream_error(cause)

    def stop(self, limit_s: float = 60.0) -> None:
        """End the stream after the batch it is in; one that takes longer than ``limit_s`` is cut
        off, and what it has applied is up to its ``apply``."""
        self._asked = 0.0
        self.error()  # one that has ended says why; of ours it would say an interruption
        self._stopping.set()
        if self._query is None:
            return
        if self._in_batch.acquire(timeout=limit_s):
            self._in_batch.release()
        self._query.stop()
        self._query = None
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    def close(self) -> None:
        """Stop, and release connections."""
        self.stop()
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


def _counts(offsets: Offsets) -> dict[str, int]:
    return {topic: len(of_topic) for topic, of_topic in offsets.items()}
