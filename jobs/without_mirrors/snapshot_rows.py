"""The rows of a snapshot, read from its topics by one Spark batch. Nothing is evaluated here.

A clean snapshot was read at one LSN and published once: its records are the rows. Any other may
hold a row twice, read at different LSNs, and a TRUNCATE where it began a table again: then the
last one of each key counts, as in the stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.config import Config
from cdc.events.codes import TRUNCATE
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.event_reader import event_reader
from cdc.kafka.security import for_spark
from jobs.generations.view_state import Beginning
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL
from jobs.spark.default_form import in_default_form
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.fold import EVENT

RECORD: Final = "key binary, value binary, topic string, partition int, offset bigint"
"""What is read of a record of the Kafka source."""
_OF_TRUNCATE = f'"op":"{TRUNCATE}"'
"""Stands in every TRUNCATE, and in few other events: those alone are parsed to find it."""


def read_topics(spark: SparkSession, config: Config, begin: Offsets, end: Offsets) -> DataFrame:
    """The records of topics from ``begin`` up to ``end``, for all cores however few partitions."""
    kafka = config.kafka
    records = (
        spark.read.format("kafka")
        .options(**for_spark(kafka.bootstrap_servers, kafka))
        .option("subscribe", ",".join(end))
        .option("startingOffsets", offsets_json(begin))
        .option("endingOffsets", offsets_json(end))
        .option("minPartitions", str(spark.sparkContext.defaultParallelism))
        .option("failOnDataLoss", "true")
        .load()
    )
    return in_default_form(event_reader(config), records)


def read_before(
    spark: SparkSession,
    config: Config,
    broker: Broker,
    topic: str,
    beginning: Beginning | None,
    at: Mapping[int, int],
    since: Mapping[int, int] = MappingProxyType({}),
) -> DataFrame:
    """The records of a topic below the offsets ``at``, by partition, and not below ``since``, of a
    stream that begins at ``beginning``; as far as Kafka has them."""
    first = {} if beginning is None else beginning.offsets.get(topic, {})
    kept = broker.beginning_offsets([topic])[topic]
    low = {p: max(begin, first.get(p, 0), since.get(p, 0)) for p, begin in kept.items()}
    high = {partition: max(begin, at.get(partition, 0)) for partition, begin in low.items()}
    return read_topics(spark, config, {topic: low}, {topic: high})


def ahead(records: DataFrame, begin: Offsets) -> DataFrame:
    """Records of the Kafka source that are not below ``begin``."""
    for topic, of_topic in begin.items():
        at: Column = F.lit(0)
        for partition, offset in of_topic.items():
            at = F.when(F.col("partition") == partition, F.lit(offset)).otherwise(at)
        records = records.where((F.col("topic") != topic) | (F.col("offset") >= at))
    return records


def offsets_json(offsets: Offsets) -> str:
    """Offsets as Spark's options have them."""
    return json.dumps(
        {topic: {str(p): at for p, at in of_topic.items()} for topic, of_topic in offsets.items()}
    )


def loaded_rows(model: Model, records: DataFrame, clean: bool) -> DataFrame:
    """What a store is filled with: the live rows of the view."""
    if clean:
        return model.loaded_rows(records).where(~F.col(DELETED)).drop(EVENT)
    position = F.struct(COMMIT_LSN, ORDINAL)
    truncated = F.max(F.when(F.col(EVENT)["op"] == TRUNCATE, position))
    some = records.where(F.col("value").cast("string").contains(_OF_TRUNCATE))
    (at,) = model.rows(some).agg(truncated.alias("at")).collect()
    live = model.rows(records).where(~F.col(DELETED))
    if at["at"] is not None:
        lsn, ordinal = at["at"]
        limit = F.struct(F.lit(lsn).cast("bigint"), F.lit(ordinal).cast("bigint"))
        live = live.where(position >= limit)
    return live.drop(EVENT)
