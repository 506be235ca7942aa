"""Which records of a batch are of parked keys."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.without_mirrors.dead_letters.letter import Owner


def record_id() -> Column:
    """``topic-partition-offset`` of a record of the Kafka source."""
    return F.concat_ws("-", "topic", "partition", "offset")


def is_of(owners: Iterable[Owner]) -> Column:
    """Whether a record is of one of some keys. They need not be text."""
    by_topic: dict[str, list[str]] = {}
    for owner in owners:
        by_topic.setdefault(owner.topic, []).append(owner.key.hex().upper())
    found = [
        (F.col("topic") == topic) & F.coalesce(F.hex("key").isin(sorted(keys)), F.lit(False))
        for topic, keys in sorted(by_topic.items())
    ]
    return reduce(or_, found, F.lit(False))


def without(records: DataFrame, owners: set[Owner], ids: set[str]) -> DataFrame:
    """Records but for those of some keys, and some single ones. Without any it costs nothing."""
    if owners:
        records = records.where(~is_of(owners))
    return records.where(~record_id().isin(sorted(ids))) if ids else records
