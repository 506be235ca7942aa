"""The records of a batch over several topics, read so that a large one fits into memory.

Each table's records are folded by themselves. A small batch is cached for that: one job reads it
from Kafka. A large one would fill Spark's memory, with every byte of every event, and so each
table's topic is read alone, without the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.config import Kafka
from cdc.kafka.broker import Broker, Offsets
from jobs.batch.thresholds import CACHED_RECORDS
from jobs.spark.checkpoint import records_between
from jobs.without_mirrors.evaluation import released
from jobs.without_mirrors.snapshot_rows import read_topics


def with_records(begin: Offsets, end: Offsets) -> set[str]:
    """The topics that a batch has records of. What ``begin`` does not name counts from 0."""
    return {
        topic
        for topic, of_topic in end.items()
        if any(at > begin.get(topic, {}).get(partition, 0) for partition, at in of_topic.items())
    }


def is_large(begin: Offsets, end: Offsets) -> bool:
    """Whether a batch is not to be cached. What ``begin`` does not name counts from 0."""
    return records_between(begin, end) > CACHED_RECORDS


def apart(
    session: SparkSession, kafka: Kafka, broker: Broker, begin: Offsets, end: Offsets
) -> DataFrame:
    """The records of a batch, of which a condition on the topic reads that topic alone.

    What ``begin`` does not name is read from as far back as Kafka goes.
    """
    parts = []
    for topic in end:
        records = read_topics(session, kafka, *stretch(broker, topic, begin, end))
        parts.append(records.withColumn("topic", F.lit(topic)))
    return reduce(DataFrame.unionByName, parts)


def stretch(broker: Broker, topic: str, begin: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
    """Where a batch begins and ends in one topic; what ``begin`` does not name begins where Kafka
    does."""
    high, came = end[topic], begin.get(topic, {})
    lacking = any(partition not in came for partition in high)
    kept = broker.beginning_offsets([topic])[topic] if lacking else {}
    low = {partition: came[partition] if partition in came else kept[partition]
           for partition in high}  # fmt: skip
    return {topic: low}, {topic: dict(high)}


@contextmanager
def cached(records: DataFrame) -> Iterator[DataFrame]:
    """Records of a batch that is not large, read from Kafka once."""
    held = records.persist()
    with released(held):
        yield held
