"""A small batch: the driver brings its records, and Spark parses and folds them.

Spark would analyse, optimize, plan and schedule a read of Kafka for some ten records: four times
what a job over records at hand takes, whose plan is the same for every batch. So the plan is made
once, without generated code, for one task, and only its job is run.

Records of several table versions are folded once more, in Python, as a task folds them: Spark would
sort each batch twice to know the periods of versions, which hardly any batch has.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from cdc.errors import FatalError
from cdc.kafka.partition_reader import FetchedRecord
from cdc.kafka.range_reader import Raw, Stretch
from jobs.batch.driver_records import keeping, open_cell
from jobs.batch.folded_rows import SCHEMA, count, has_versions
from jobs.batch.image_completion import finished, no_text
from jobs.batch.plan import folded
from jobs.batch.task_fold import TaskFold, batches, note_periods
from jobs.batch.task_parts import Part
from jobs.batch.version_periods import Periods
from jobs.spark.interpreter import interpreted
from jobs.spark.session import session_beside

CHUNK_BYTES: Final = 4 << 20
"""Of records in one job: all of it is several times in memory."""


class SmallBatch:
    """Spark's plan for small batches, in a session of its own. Use from one thread at a time."""

    def __init__(self, spark: SparkSession) -> None:
        session = session_beside(spark)
        session.conf.set("spark.sql.adaptive.enabled", "false")
        self._cell, records = open_cell(session)
        with interpreted(session):
            rows = folded(records)
            if steps := keeping(rows):
                raise FatalError(
                    f"unexpected steps in Spark's plan of a small batch: {', '.join(steps)}",
                    "report it",
                )
            self._schema = to_arrow_schema(rows.schema)
            self._batches: Any = rows._jdf.toArrowBatchRdd()

    def fold(self, records: Sequence[FetchedRecord]) -> pa.Table:
        """The rows of ``jobs.batch.folded_rows.SCHEMA`` that the records amount to."""
        texts, aside = list[dict[str, Any]](), list[dict[str, Any]]()
        for record in records:
            if record.value is not None:
                try:
                    texts.append(_text(record, record.value))
                except UnicodeDecodeError:
                    aside.append(no_text(record))
        tables = [self._run(chunk) for chunk in _chunks(texts)]
        if aside:
            tables.append(pa.Table.from_pylist(aside, SCHEMA))
        table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
        return folded_here(records) if has_versions(table) else table

    def _run(self, records: Sequence[dict[str, Any]]) -> pa.Table:
        self._cell[0] = orjson.dumps(records).decode()
        try:
            messages = self._batches.collect()
        finally:
            self._cell[0] = None
        read = [
            pa.ipc.read_record_batch(pa.ipc.read_message(message), self._schema)
            for message in messages
        ]
        table = finished(pa.Table.from_batches(read, self._schema))
        if (found := count(table)) != len(records):
            raise FatalError(f"{found} of a batch's {len(records)} records were read", "report it")
        return table


def folded_here(records: Iterable[FetchedRecord]) -> pa.Table:
    """The same of records of several table versions."""
    found: defaultdict[tuple[str, int], list[Raw]] = defaultdict(list)
    periods: defaultdict[str, Periods] = defaultdict(Periods)
    for one in records:
        found[one.topic, one.partition].append((one.key, one.value, one.offset))
    for (topic, _), raw in found.items():
        note_periods(periods[topic], raw)
    rows = list[pa.RecordBatch]()
    for (topic, partition), raw in found.items():
        part = Part(Stretch(topic, partition, 0, 0))
        fold = TaskFold(part, sys.maxsize, periods[topic])
        fold.add(raw)
        rows += batches(part, fold.rows())
    return pa.Table.from_batches(rows, SCHEMA)


def _text(record: FetchedRecord, value: bytes) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": None if record.key is None else record.key.decode(),
        "value": value.decode(),
    }


def _chunks(records: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Parts of about ``CHUNK_BYTES``; all records of a key are in the same."""
    size = sum(len(record["value"]) for record in records)
    if size <= CHUNK_BYTES:
        return [records] if records else []
    parts = size // CHUNK_BYTES + 1
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        found[hash((record["topic"], record["key"])) % parts].append(record)
    return found.values()
