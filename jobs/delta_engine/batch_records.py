"""The records of a batch over several topics: each table's topic is read alone, without the others.

Read together they would have to be cached, to be folded for one table after the other, and a large
batch would fill Spark's memory with every byte of every event.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.config import Config
from cdc.kafka.broker import Broker, Offsets
from jobs.without_mirrors.snapshot_rows import read_topics


def with_records(begin: Offsets, end: Offsets) -> set[str]:
    """The topics that a batch has records of. What ``begin`` does not name counts from 0."""
    return {
        topic
        for topic, of_topic in end.items()
        if any(at > begin.get(topic, {}).get(partition, 0) for partition, at in of_topic.items())
    }


def apart(
    session: SparkSession, config: Config, broker: Broker, begin: Offsets, end: Offsets
) -> DataFrame:
    """The records of a batch, of which a condition on the topic reads that topic alone.

    What ``begin`` does not name is read from as far back as Kafka goes.
    """
    parts = []
    for topic in end:
        records = read_topics(session, config, *stretch(broker, topic, begin, end))
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
