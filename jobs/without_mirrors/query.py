"""One view's Structured Streaming query, from its start to its end.

The query's checkpoint is its memory. A batch that was applied and not committed is applied again
with the same number; the sink's position guard makes that change nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError, ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import event_reader
from cdc.kafka.security import for_spark
from jobs.generations.topic_ids import refuse_recreated
from jobs.generations.view_state import ViewState
from jobs.sinks.contract import Batch, Sink
from jobs.spark.checkpoint import batch_offsets, committed_batch, is_started
from jobs.spark.default_form import in_default_form
from jobs.spark.faults import caused
from jobs.spark.heap import records_at_most
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.keeper import open_keeper
from jobs.without_mirrors.regrouped_topics import refuse_regrouped
from jobs.without_mirrors.replay.checkpoint_rewind import finish_rewind
from jobs.without_mirrors.replay.replay import later
from jobs.without_mirrors.snapshot_rows import offsets_json
from jobs.without_mirrors.table_descriptions import no_topic
from views.parse.definition import ViewDefinition

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# The Kafka source's consumers would else wait 500 ms at the end of a partition: twice what a change
# may take to be seen in Redis.
_FETCH_MAX_WAIT_MS = "20"
_DRAIN_S = 30.0
_COMMIT_S = 2.0
_POLL_S = 0.02


class Applied(NamedTuple):
    """A batch that a sink holds now."""

    batch: Batch
    account: Account
    offsets: Offsets
    seconds: float
    at_us: int
    """When the sink returned, microseconds since the epoch."""
    parked: int = 0
    """Keys whose events wait as dead letters."""


class ViewQuery:
    """Owns one view's query from ``start`` to ``stop``. Use from one thread.

    ``sharing``: so many views share the session, and its memory.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        definition: ViewDefinition,
        state: ViewState,
        sink: Sink,
        broker: Broker,
        report: Callable[[Applied], None],
        sharing: int = 1,
    ) -> None:
        self._spark = spark
        self._config = config
        self._definition = definition
        self._state = state
        self._sink = sink
        self._broker = broker
        self._report = report
        self._sharing = sharing
        self._reader = event_reader(config)
        self._topics = {
            config.source.own_topic(one.schema, one.table): one.table_name
            for one in definition.occurrences
        }
        self._keeper = open_keeper(spark, config, definition, state, sink, broker)
        self._query: StreamingQuery | None = None
        self._error: HeadwaterError | None = None
        self._in_batch = threading.Lock()
        self.replayed_until: Offsets = {}
        """Below this all was applied before it came again."""
        self._available_now = False
        self._stopping = False
        self._abandoned = False
        self._applied = -1

    def start(self, available_now: bool) -> None:
        """Check what can be checked, prepare the store, start the stream.

        Raises ``RetryableError`` when capture has not described the table yet.
        """
        self._available_now = available_now
        finish_rewind(self._state.checkpoint)
        if (replay := self._state.replay()) is not None:
            self.replayed_until = replay.until
        for topic, table in self._topics.items():
            self._check_topic(topic, table)
        name = self._definition.name
        refuse_recreated(self._state, name, self._broker.topic_ids(list(self._topics)))
        done = self.committed()
        self._refuse_regrouped(done)
        columns = self._keeper.read()
        created = self._sink.prepare(columns, self._definition.key)
        begun = done is not None or self._state.beginning() is not None
        self._state.refuse_lost(self._definition, created and begun)
        self._keeper.open(created, {} if done is None else done[1])
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._definition.name)
        records = (
            self._spark.readStream.format("kafka")
            .options(**for_spark(self._config.kafka.bootstrap_servers, self._config.kafka))
            .option("subscribe", ",".join(self._topics))
            .option("startingOffsets", self._starting())
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", self._most_records())
            .option("kafka.fetch.max.wait.ms", _FETCH_MAX_WAIT_MS)
            .load()
        )
        writer = (
            records.writeStream.queryName(f"{self._definition.name} {self._state.generation}")
            .option("checkpointLocation", str(self._state.checkpoint))
            .foreachBatch(self._batch)
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self._cadence_s():
            writer = writer.trigger(processingTime=f"{self._cadence_s() * 1000:.0f} milliseconds")
        self._query = writer.start()

    def _cadence_s(self) -> float:
        """The shortest time from one batch to the next; 0 where each comes when it can."""
        if self._config.apply.engine != "database":
            return 0.0
        return self._config.store(self._definition.store).cadence_s

    def _most_records(self) -> int:
        asked = self._config.apply.max_offsets_per_trigger
        return asked or records_at_most(self._spark, self._sharing)

    def _check_topic(self, topic: str, table: str) -> None:
        name, source = self._definition.name, self._config.source.name
        if topic not in self._broker.partitions([topic]):
            raise no_topic(self._broker, source, self._definition, table, topic)
        if is_started(self._state.checkpoint):
            return
        beginning = self._state.beginning()
        wanted = {} if beginning is None else beginning.offsets.get(topic, {})
        kept = self._broker.beginning_offsets([topic])[topic]
        trimmed = {partition: at for partition, at in kept.items() if at > wanted.get(partition, 0)}
        if trimmed:
            places = ", ".join(f"{topic}-{p} begins at {o}" for p, o in trimmed.items())
            raise ViewError(
                f"view {name}: the topic's beginning is gone: {places}",
                f"run `headwater view create {name}`"
                if beginning is None
                else (
                    f"drop the unfinished generation with `headwater view drop {name} "
                    "--generation N` (`headwater view list` shows N), then start again"
                ),
            )

    def _refuse_regrouped(self, done: tuple[int, Offsets] | None) -> None:
        """Of a generation that was retired, or is to begin with its topics, while they got more
        partitions."""
        beginning = self._state.beginning()
        begin = {} if beginning is None else beginning.offsets
        begin = begin if done is None else done[1]
        begin = {topic: begin.get(topic, {}) for topic in self._topics}
        if self._definition.maintained:  # mirrors pass over what they had
            begin = later(self._state.replay(), begin)
        name, source = self._definition.name, self._config.source.name
        refuse_regrouped(self._broker, source, name, begin)

    def _starting(self) -> str:
        """Where a stream without a checkpoint begins, as Spark's option has it."""
        beginning = self._state.beginning()
        if beginning is None:
            return "earliest"
        counts = self._broker.partitions(list(beginning.offsets))
        return offsets_json(
            {
                topic: dict.fromkeys(range(counts.get(topic, 0)), 0) | of_topic
                for topic, of_topic in beginning.offsets.items()
            }
        )

    def _batch(self, records: DataFrame, number: int) -> None:
        """Called by Spark for each micro-batch, on a thread of its own."""
        with self._in_batch:
            if self._stopping:
                raise RuntimeError("stopping: this batch is for the next start")
            try:
                self._run(records, number)
            except Exception as error:
                if not self._abandoned:  # else it is what ``stop`` did to it
                    self._error = caused(error, self._definition.name)
                raise
            finally:
                if self._abandoned:  # nobody waits for this batch any more
                    self._keeper.close()
            self._applied = number

    def _run(self, records: DataFrame, number: int) -> None:
        started = time.monotonic()
        offsets = batch_offsets(self._state.checkpoint, number)
        read = in_default_form(self._reader, records)
        batch, counted = self._keeper.apply(read, number, offsets)
        seconds, at_us = time.monotonic() - started, time.time_ns() // 1000
        self._report(Applied(batch, counted, offsets, seconds, at_us, self._keeper.parked))

    def committed(self) -> tuple[int, Offsets] | None:
        """The last committed batch and where it ends, None before the first."""
        number = committed_batch(self._state.checkpoint)
        return None if number is None else (number, batch_offsets(self._state.checkpoint, number))

    @property
    def generation(self) -> str:
        """UUID of the checkpoint."""
        return self._state.generation

    @property
    def active(self) -> bool:
        """Whether the stream runs."""
        return self._query is not None and self._query.isActive

    def error(self) -> HeadwaterError | None:
        """Why the stream ended, None if ``stop`` ended it."""
        if self._error is None and not (self._stopping or self._query is None or self.active):
            name, cause = self._definition.name, self._query.exception()
            if cause is not None:
                self._error = caused(cause, name)
            elif not self._available_now:
                self._error = RetryableError(f"view {name}: its stream was ended from outside")
        return self._error

    def stop(self, hurries: Callable[[], bool] = lambda: True) -> None:
        """End the stream after the batch it is in, committed if that takes but a moment. Of whoever
        ``hurries`` a batch that does not end in time is abandoned; what it holds is released when
        it ends."""
        try:
            self._stop(hurries)
        finally:
            self._release()

    def _release(self) -> None:
        """Close what batches are kept by: at once, or when the one that runs has ended."""
        if not self._in_batch.acquire(timeout=0 if self._abandoned else _COMMIT_S):
            self._abandoned = True
            if not self._in_batch.acquire(blocking=False):
                return  # it closes it
        try:
            self._keeper.close()
        finally:
            self._in_batch.release()

    def _stop(self, hurries: Callable[[], bool]) -> None:
        self.error()  # one that has ended says why; of ours it would say an interruption
        self._stopping = True
        if self._query is None:
            return
        began = time.monotonic()
        while not (ended := self._in_batch.acquire(timeout=_POLL_S)):
            if hurries() and time.monotonic() - began > _DRAIN_S:
                break
        if ended:
            self._in_batch.release()
        else:
            self._abandoned = True
        deadline = time.monotonic() + _COMMIT_S
        while (committed_batch(self._state.checkpoint) or 0) < self._applied:
            if time.monotonic() > deadline or not self._query.isActive:
                break
            time.sleep(_POLL_S)
        self._query.stop()
