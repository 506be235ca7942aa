"""What is asked of few records, planned once and run for every batch.

Spark analyses, optimizes and plans what it is asked. For some hundred records that takes longer
than to read and fold them, and one batch's plan is the next one's but for the records. So a plan
is kept here, over a cell that holds the records of the batch at hand, as one text: Spark sends
what the cell holds to the task that reads it, for each run anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from cdc.config import Kafka
from cdc.errors import FatalError, LogError
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.broker import Record as KafkaRecord
from jobs.account import Account
from jobs.applying import Model
from jobs.fold import Step
from jobs.offsets import is_few
from jobs.schema import JSON_OPTIONS
from jobs.session import session_beside
from jobs.sinks import COMMIT_LSN
from jobs.sinks.documents import Documents
from jobs.small.at_hand import (
    BESIDE,
    FewDocuments,
    account_at_hand,
    at_hand,
    brought,
    is_flat,
    of_event,
)
from jobs.small.interpreted import interpreted

MOST_BYTES = 800_000
"""Of records that a task is sent: Spark takes a task of a megabyte for a mistake."""
_RECORDS = (
    "array<struct<key: string, value: string, topic: string, `partition`: int, `offset`: bigint>>"
)
_KEEPING = ("Exchange", "InMemory", "Subquery", "QueryStage")
"""In the names of those steps of a plan that keep what they once read."""

log = structlog.get_logger("apply")


class FewRecord(NamedTuple):
    """One record of a topic, which is no tombstone."""

    key: str | None
    value: str
    topic: str
    partition: int
    offset: int


class SmallBatches:
    """The records of a view's small batches, and what its models make of them. Use from one thread
    at a time."""

    def __init__(self, spark: SparkSession, kafka: Kafka) -> None:
        self._spark, self._kafka = spark, kafka
        self._brokers: dict[str, Broker] = {}  # of the stream's thread
        self._prepared: dict[Model, Prepared] = {}
        self._documents: tuple[Model, Documents, _Plan] | None = None

    @cached_property
    def _session(self) -> SparkSession:
        """For its settings, which other plans do not want."""
        return session_beside(self._spark)

    def read(self, models: Iterable[Model], begin: Offsets, end: Offsets) -> list[FewRecord] | None:
        """The records of a batch, tombstones left out. None for what has to go through Spark: it is
        many, or large, or no text, or Kafka does not have it, of which Spark tells; or the rows are
        of a kind that cannot be brought here."""
        if not is_few(begin, end) or not all(is_flat(model.columns) for model in models):
            return None
        return read_few(self._broker, begin, end)

    def _broker(self, topic: str) -> Broker:
        """One for each topic: given another one, Kafka's client asks for its partitions anew, which
        takes longer than to read a batch."""
        if topic not in self._brokers:
            self._brokers[topic] = Broker(self._kafka.bootstrap_servers, self._kafka)
        return self._brokers[topic]

    def rows(self, model: Model, records: Sequence[FewRecord]) -> pa.Table | None:
        """What ``Model.rows`` makes of them, and where a gap may be filled ``Model.filled_rows``.
        None where the rows are too large, or each plan has to be made anew."""
        return self._of(model).rows(records)

    def evaluated(
        self, session: SparkSession, model: Model, records: Sequence[FewRecord]
    ) -> tuple[DataFrame, Account] | None:
        """The rows, at hand in a session, and what they amount to; None as of ``rows``."""
        return self._at_hand(session, model, self.rows(model, records))

    def filled(
        self, session: SparkSession, model: Model, records: Sequence[FewRecord]
    ) -> tuple[DataFrame, Account] | None:
        """As ``evaluated``, of records that ``documents`` found gaps in."""
        return self._at_hand(session, model, self._of(model).filled(records))

    def _of(self, model: Model) -> Prepared:
        if model not in self._prepared:
            self._prepared[model] = Prepared(self._session, model)
        return self._prepared[model]

    def _at_hand(
        self, session: SparkSession, model: Model, table: pa.Table | None
    ) -> tuple[DataFrame, Account] | None:
        if table is None:
            return None
        return at_hand(session, table, self._of(model).schema), account_at_hand(table)

    def documents(
        self, model: Model, documents: Documents, records: Sequence[FewRecord]
    ) -> tuple[FewDocuments | None, Account] | None:
        """What a store of documents is given of the records, and what they amount to: in one plan,
        so that rows need not go to Spark a second time. The documents are None where a gap may be
        filled or a TRUNCATE is among them. None as of ``rows``, and where ``rows`` has to say what
        is wrong."""
        if (held := self._documents) is None or held[:2] != (model, documents):
            step = partial(_documents_of, model, documents)
            held = self._documents = model, documents, _Plan(self._session, step)
        try:
            table = held[2].run(records)
        except (PySparkException, Py4JJavaError):
            return None
        if table is None or table.column(COMMIT_LSN).null_count:  # a record of somebody else's
            return None
        counted = account_at_hand(table)
        is_finished = not counted.gaps and counted.truncated is None
        return FewDocuments(table) if is_finished else None, counted

    def forget(self) -> None:
        """The models are others now."""
        self._prepared.clear()
        self._documents = None

    def close(self) -> None:
        """Release connections, and the session with its plans. Whoever keeps this, as Spark does
        the function that its batches were given to, keeps no more."""
        for broker in self._brokers.values():
            broker.close()
        self.forget()
        self.__dict__.pop("_session", None)


def _documents_of(model: Model, documents: Documents, records: DataFrame) -> DataFrame:
    return documents(model.rows(records), *BESIDE)


def read_few(
    broker: Callable[[str], Broker], begin: Offsets, end: Offsets
) -> list[FewRecord] | None:
    """As ``SmallBatches.read``, of a batch with few records, by the broker of each topic."""
    found, size = list[FewRecord](), 0
    for topic, of_topic in end.items():
        for partition, high in of_topic.items():
            low = begin.get(topic, {}).get(partition)
            if low is None:
                return None
            try:
                for one in broker(topic).read(topic, partition, low, high):
                    if one.value is not None:
                        size += len(one.value) + len(one.key or b"")
                        found.append(_text(topic, one, one.value))
                    if size > MOST_BYTES:
                        return None
            except (LogError, UnicodeDecodeError):
                return None
    return found


def _text(topic: str, record: KafkaRecord, value: bytes) -> FewRecord:
    key = None if record.key is None else record.key.decode()
    return FewRecord(key, value.decode(), topic, record.partition, record.offset)


class Prepared:
    """A model's plans over few records, in a session that nobody else uses meanwhile."""

    def __init__(self, session: SparkSession, model: Model) -> None:
        self._session, self._model = session, model
        self._plain = _Plan(self._session, model.rows)
        self._filled: _Plan | None = None

    @property
    def schema(self) -> StructType:
        """Of the rows."""
        return self._plain.schema

    def rows(self, records: Sequence[FewRecord]) -> pa.Table | None:
        """As ``SmallBatches.rows``."""
        found = self._plain.run(records)
        if found is None or not pc.any(of_event(found, "gap")).as_py():
            return found
        return self.filled(records)

    def filled(self, records: Sequence[FewRecord]) -> pa.Table | None:
        """What ``Model.filled_rows`` makes of them."""
        if self._filled is None:
            self._filled = _Plan(self._session, self._model.filled_rows)
        return self._filled.run(records)


class _Plan:
    """A step over the records that a cell holds."""

    def __init__(self, session: SparkSession, step: Step) -> None:
        self._session = session
        self._cell, records = _cell(session)
        with interpreted(session):
            self._rows = step(records)
            self._kept = _keeping(self._rows)
        if self._kept:
            log.warning("small_batches_planned_each", steps=self._kept)

    @property
    def schema(self) -> StructType:
        return self._rows.schema

    def run(self, records: Sequence[FewRecord]) -> pa.Table | None:
        if self._kept:
            return None
        self._cell[0] = orjson.dumps(list(map(FewRecord._asdict, records))).decode()
        try:
            with interpreted(self._session):
                found = brought(self._rows)
        finally:
            self._cell[0] = None
        if found is not None:
            read = pc.sum(of_event(found, "records")).as_py() or 0
            if read != len(records):
                raise FatalError(
                    f"{read} of a batch's {len(records)} records were read", "report it"
                )
        return found


def _keeping(rows: DataFrame) -> list[str]:
    """The steps of a plan that keep what they once read: run again, it would give that again."""
    query: Any = rows._jdf.queryExecution()
    found, left = list[str](), [query.executedPlan()]
    while left:
        step = left.pop()
        name = step.getClass().getSimpleName()
        found += [name] * any(one in name for one in _KEEPING)
        if name == "AdaptiveSparkPlanExec":
            left.append(step.inputPlan())
        for steps in (step.children(), step.subqueries()):
            left += [steps.apply(i) for i in range(steps.size())]
    return found


def _cell(session: SparkSession) -> tuple[Any, DataFrame]:
    """A place for a text, and the records that the text is."""
    gateway: Any = session.sparkContext._gateway
    java, spark = gateway.jvm.java, gateway.jvm.org.apache.spark.sql
    cell = gateway.new_array(java.lang.Object, 1)
    row = java.util.ArrayList()
    row.add(spark.RowFactory.create(cell))
    context: Any = session.sparkContext._jsc
    native: Any = session._jsparkSession
    schema = native.parseDataType(StructType().add("text", StringType()).json())
    held = DataFrame(native.createDataFrame(context.parallelize(row, 1), schema), session)
    records = F.from_json("text", _RECORDS, JSON_OPTIONS)
    return cell, held.coalesce(1).select(F.inline(records))
