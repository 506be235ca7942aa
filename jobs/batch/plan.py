"""The plan that parses and folds the records of a batch. Pure: DataFrame to DataFrame.

Of an event it reads what all tables' events have. Images are cut out of its text where they stand,
for a parsed value would be written anew, in another form: ``1e+20`` as ``1.0E20``.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc.events.codes import SNAPSHOT, TRUNCATE
from jobs.batch.folded_rows import NO_EVENT, SCHEMA
from jobs.spark.event_values import JSON_OPTIONS

RANK: Final = "rank"
"""1 for the last change of its key; more for earlier ones, which are there if the last change
leaves values out."""
TEXT: Final = "text"
"""The event where its images could not be cut out of it; else null."""
_EVENT: Final = (
    "struct<op: string, source: struct<commit_lsn: bigint, ordinal: bigint, schema_id: string,"
    " ts_us: bigint, unchanged: array<string>>>"
)
# An image is null or an object whose values hold no objects, so that unquoted braces and what
# follows them are its ends: in a string each quote stands behind a backslash.
_BEFORE: Final = '{"before":'
_NO_BEFORE: Final = '{"before":null,"after":'
_AFTER: Final = '},"after":'
_SOURCE: Final = ',"source":{'
_END: Final = (1 << 31) - 1
_GROUP: Final = ("topic", "key", "schema_id", "alone")


def folded(records: DataFrame) -> DataFrame:
    """Records with ``topic, partition, offset, key, value``, all but key as the Kafka source has
    them and key and value as text, to rows of ``jobs.batch.folded_rows.SCHEMA``, with ``rank`` and
    ``text``. Tombstones are dropped."""
    return _ranked(_parsed(records))


def _parsed(records: DataFrame) -> DataFrame:
    value = F.col("value")
    head = F.substring_index(value, _SOURCE, 1)
    read = records.where("value is not null").select(
        "topic", "partition", "offset", "key", "value",
        F.from_json(value, _EVENT, JSON_OPTIONS).alias("event"),
        head.alias("head"),
        head.startswith(_NO_BEFORE).alias("plain"),
    )  # fmt: skip
    source, op = F.col("event.source"), F.col("event.op")
    known = (
        op.isNotNull() & source["commit_lsn"].isNotNull() & source["ordinal"].isNotNull()
        & source["schema_id"].isNotNull()
    )  # fmt: skip
    read = read.withColumn("known", known)
    fields = read.select(
        "topic", "partition", "offset", "key", "value", "known",
        F.when(F.col("known"), op).alias("op"),
        F.when(F.col("known"), source["commit_lsn"]).alias("commit_lsn"),
        F.when(F.col("known"), source["ordinal"]).alias("ordinal"),
        F.when(F.col("known"), source["schema_id"]).alias("schema_id"),
        source["ts_us"].alias("committed_us"),
        _before().alias("before"),
        _after().alias("after"),
        F.when(F.col("known") & (F.size(source["unchanged"]) > 0), source["unchanged"]).alias(
            "unchanged"
        ),
    )  # fmt: skip
    return fields.select("*", _is_cut().alias("cut"), _alone().alias("alone"))


def _before() -> Column:
    """The text of ``before``, where the event has one and is as capture writes it."""
    cut = F.substring(F.substring_index("head", _AFTER, 1), len(_BEFORE) + 1, _END)
    return F.when(~F.col("plain"), F.concat(cut, F.lit("}")))


def _after() -> Column:
    behind = F.substring_index("head", _AFTER, -1)
    cut = F.when(F.col("plain"), F.substring("head", len(_NO_BEFORE) + 1, _END)).otherwise(behind)
    return F.nullif(cut, F.lit("null"))


def _is_cut() -> Column:
    """Whether what was cut out are images: else the event is in another form than capture's."""
    before, after = F.col("before"), F.col("after")
    canonical = F.col("value").startswith(_BEFORE) & F.col("value").contains(_SOURCE)
    return (
        canonical
        & (before.isNull() | (before.startswith("{")))
        & (after.isNull() | (after.startswith("{") & after.endswith("}")))
    )


def _alone() -> Column:
    """What tells records apart that are not folded: without a key, and no events."""
    apart = ~F.col("known") | (F.col("key").isNull() & (F.col("op") != TRUNCATE))
    return F.when(apart, F.concat_ws("-", "partition", "offset"))


def _ranked(parsed: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*_GROUP).orderBy(
        F.desc("commit_lsn"), F.desc("ordinal"), F.desc("offset")
    )
    group = newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    streamed = F.when(F.col("op") != SNAPSHOT, F.col("committed_us"))
    ranked = parsed.withColumns(
        {
            RANK: F.row_number().over(newest),
            "records": F.count(F.lit(1)).over(group),
            "oldest_us": F.min(streamed).over(group),
            "partial": F.first("unchanged").over(group).isNotNull(),
        }
    )
    cause = F.when(~F.col("known"), F.lit(NO_EVENT)).alias("cause")
    rest = [name for name in SCHEMA.names if name not in ("before", "after", "read_lsn", "cause")]
    return ranked.where((F.col(RANK) == 1) | F.col("partial")).select(
        *rest,
        F.when(F.col("cut"), F.col("before")).alias("before"),
        F.when(F.col("cut"), F.col("after")).alias("after"),
        F.lit(None).cast("bigint").alias("read_lsn"),
        cause,
        RANK,
        F.when(~F.col("cut") & F.col("known"), F.col("value")).alias(TEXT),
    )
