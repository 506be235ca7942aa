"""A micro-batch of events, folded to the last change of each key. Pure: DataFrame to DataFrame.

Everything runs in the JVM. Order is the position's, never the offset's: a snapshot row (ordinal 0)
loses against any change committed at its LSN or later, whichever stands first in the topic.
Tombstones are dropped, their delete event says it already.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.faults import fault
from jobs.schema import PLACEHOLDER

EVENT = "__event"
_VALUE = (
    "before map<string,string>, after map<string,string>, op string, "
    "source struct<commit_lsn: bigint, ordinal: bigint, schema_id: string, ts_us: bigint>"
)
DELETE, SNAPSHOT, TRUNCATE = "d", "r", "t"


def parse(records: DataFrame) -> DataFrame:
    """Records of the Kafka source as ``key``, ``position`` and ``change``, tombstones dropped.

    A record that is not an event of Headwater raises ``LogError`` when it is read.
    """
    record = F.concat_ws("-", "topic", "partition", "offset")
    text = F.col("value").cast("string")
    event = F.from_json(text, _VALUE).alias("event")
    parsed = records.where("value IS NOT NULL").select(
        F.col("key").cast("string").alias("key"),
        event,
        record.alias("record"),
        text.contains(PLACEHOLDER).alias("partial"),
    )
    source = F.col("event.source")
    foreign = fault(
        "LogError", "not an event of Headwater", F.col("record"), "what else writes to this topic?"
    )
    known = F.col("event.op").isNotNull() & source["ordinal"].isNotNull()
    lsn = F.when(known, source["commit_lsn"]).otherwise(foreign.cast("bigint"))
    change = F.struct(
        F.col("event.op").alias("op"),
        F.coalesce("event.after", "event.before").alias("image"),
        source["schema_id"].alias("schema_id"),
        source["ts_us"].alias("committed_us"),
        "record",
    )
    return parsed.select(
        "key",
        F.struct(lsn.alias("commit_lsn"), source["ordinal"].alias("ordinal")).alias("position"),
        change.alias("change"),
        "partial",
    )


def fold(events: DataFrame) -> DataFrame:
    """The last change of each key, in one struct column ``__event``.

    Fields: ``commit_lsn, ordinal, op, image, schema_id, committed_us, record, records`` (events
    folded) and ``oldest_us`` (commit time of the oldest streamed one). TRUNCATE has no key: the
    newest one is the row whose ``op`` is ``t``.
    """
    newest = F.max_by("change", "position")
    whole = F.struct("position", F.col("change.image").alias("image"))
    folded = events.groupBy("key").agg(
        F.max("position").alias("position"),
        newest.alias("change"),
        F.max_by("partial", "position").alias("partial"),
        # Where the values of unchanged TOAST columns may be: the newest image without
        # placeholders, and every image with some.
        F.max(F.when(~F.col("partial"), F.col("position"))).alias("whole_at"),
        F.max_by(F.when(~F.col("partial"), F.col("change.image")), _at(~F.col("partial"))).alias(
            "whole"
        ),
        F.max(F.when(F.col("change.op") == DELETE, F.col("position"))).alias("deleted_at"),
        F.collect_list(F.when(F.col("partial"), whole)).alias("partials"),
        F.count(F.lit(1)).alias("records"),
        F.min(F.when(F.col("change.op") != SNAPSHOT, F.col("change.committed_us"))).alias(
            "oldest_us"
        ),
    )
    change = F.col("change")
    image = F.when(F.col("partial"), _filled(change["image"])).otherwise(change["image"])
    return folded.select(
        F.struct(
            F.col("position.commit_lsn").alias("commit_lsn"),
            F.col("position.ordinal").alias("ordinal"),
            change["op"].alias("op"),
            image.alias("image"),
            change["schema_id"].alias("schema_id"),
            change["committed_us"].alias("committed_us"),
            change["record"].alias("record"),
            "records",
            "oldest_us",
        ).alias(EVENT)
    )


def _at(condition: Column) -> Column:
    return F.when(condition, F.col("position"))


def _filled(image: Column) -> Column:
    """The image with each placeholder replaced by the newest earlier value, if the batch has one.

    Values from before a delete of the key belong to another row and are not taken.
    """
    whole = F.struct(F.col("whole_at").alias("position"), F.col("whole").alias("image"))
    images = F.filter(
        F.array_append("partials", whole),
        lambda item: (
            item["position"].isNotNull()
            & (F.col("deleted_at").isNull() | (item["position"] > F.col("deleted_at")))
        ),
    )

    def fill(name: Column, text: Column) -> Column:
        values = F.transform(
            F.filter(images, lambda item: _differs(F.try_element_at(item["image"], name))),
            lambda item: F.struct(item["position"], F.try_element_at(item["image"], name)),
        )
        found = F.array_max(values)
        return F.when((text == PLACEHOLDER) & found.isNotNull(), found["col2"]).otherwise(text)

    return F.transform_values(image, fill)


def _differs(text: Column) -> Column:
    return ~text.eqNullSafe(F.lit(PLACEHOLDER))
