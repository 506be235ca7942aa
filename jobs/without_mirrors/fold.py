"""A micro-batch of events, folded to the last change of each key. Pure: DataFrame to DataFrame.

Everything runs in the JVM. Order is the position's, never the offset's: a snapshot row (ordinal 0)
loses against any change committed at its LSN or later, whichever stands first in the topic.
Tombstones are dropped, their delete event says it already.

A step is built once and run on every batch: its expressions are made call by call through py4j,
which costs more than running a small batch does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from cdc.events.codes import DELETE, PLACEHOLDER, SNAPSHOT, UPDATE
from jobs.batch.folded_rows import NO_EVENT
from jobs.spark.event_values import JSON_OPTIONS, left_out
from jobs.spark.faults import FOREIGN_RECORD, fault
from jobs.without_mirrors.renamed_columns import Sent
from views.table_versions import REFUSED_HINT, TableVersion

Step = Callable[[DataFrame], DataFrame]
EVENT = "__event"
RECORDS, OLDEST_US = "records", "oldest_us"
_FILLED = "map<string, string>"
_READ = "array<string>"
_VALUE = "struct<text string, schema_id string, read_lsn bigint>"
_SOURCE = (
    StructType()
    .add("commit_lsn", LongType())
    .add("ordinal", LongType())
    .add("schema_id", StringType())
    .add("ts_us", LongType())
    .add("unchanged", ArrayType(StringType()))
)


def parse(
    columns: Sequence[str],
    versions: Mapping[str, TableVersion],
    *,
    streamed: bool = True,
) -> Step:
    """Records of the Kafka source to ``key``, ``position``, ``change``, ``records``, of which each
    is one, and ``oldest_us``, when a streamed one was committed. Tombstones are dropped.

    ``columns`` of the row images are read, each as the text the event carries; one that an event
    does not have is NULL. ``versions`` of the table, by ``schema_id``, tell what events call them.
    A record that is not an event of Headwater raises ``LogError`` when it is read, an event of a
    version that is refused ``ViewError``, also where a later one replaces it. Without
    ``streamed`` ones no value is left out: no UPDATE is among them.
    """
    text, source = F.col("value").cast("string"), F.col("event.source")
    sent = Sent(versions, source["schema_id"])
    # A filter behind this, as on deleted rows, would be moved before it with all that it asks for,
    # and the JSON be read twice: not through what Spark takes for nondeterministic.
    once = F.when(F.spark_partition_id() >= 0, text)
    read = [
        F.col("key").cast("string").alias("key"),
        F.from_json(once, _value(sent.names(columns)), JSON_OPTIONS).alias("event"),
        F.concat_ws("-", "topic", "partition", "offset").alias("record"),
        (text.contains(PLACEHOLDER) if streamed else F.lit(False)).alias("partial"),
    ]
    foreign = fault(
        FOREIGN_RECORD,
        NO_EVENT,
        F.col("record"),
        "find the other program that writes to this topic",
    )
    known = F.col("event.op").isNotNull() & source["ordinal"].isNotNull()
    lsn = F.when(known, source["commit_lsn"]).otherwise(foreign.cast("bigint"))
    for id_, version in versions.items():
        if version.refused:
            refused = fault("ViewError", version.refused, F.col("record"), REFUSED_HINT)
            is_its = known & (source["schema_id"] == id_)
            lsn = F.when(is_its, refused.cast("bigint")).otherwise(lsn)
    change = F.struct(
        F.col("event.op").alias("op"),
        sent.image(F.coalesce("event.after", "event.before"), columns).alias("image"),
        source["schema_id"].alias("schema_id"),
        F.when(F.col("event.op") == SNAPSHOT, source["commit_lsn"]).alias("read_lsn"),
        source["ts_us"].alias("committed_us"),
        "record",
        (F.col("partial") & (F.col("event.op") == UPDATE)).alias("partial"),
        sent.listed(source["unchanged"]).alias("unchanged"),
    )
    position = F.struct(lsn.alias("commit_lsn"), source["ordinal"].alias("ordinal"))
    key = sent.key(F.col("key"))
    parsed = [
        key.alias("key"),
        position.alias("position"),
        change.alias("change"),
        F.lit(1).cast("bigint").alias(RECORDS),
        F.when(F.col("event.op") != SNAPSHOT, source["ts_us"]).alias(OLDEST_US),
    ]
    return lambda records: records.where("value IS NOT NULL").select(*read).select(*parsed)


def _value(columns: Sequence[str]) -> StructType:
    """The part of an event's value that is read."""
    image = StructType()
    for name in columns:
        image.add(name, StringType())
    return (
        StructType()
        .add("before", image)
        .add("after", image)
        .add("op", StringType())
        .add("source", _SOURCE)
    )


def fold() -> Step:
    """Parsed events to the last change of each key, in one struct column ``__event``.

    Fields: ``commit_lsn, ordinal, op, image, schema_id, committed_us, record, partial, unchanged,
    gap, filled, read, read_lsn``, and of all changes folded into it their number, ``records``, and
    ``oldest_us``, when the oldest streamed one was committed. TRUNCATE has no key: the newest one
    is the row whose ``op`` is ``t``. Placeholders stay in a ``partial`` image, which only an UPDATE
    has; ``gap`` tells that an earlier change of the batch may have the values, which is for
    ``fold_filling`` to find out.
    """
    gap = F.col("change.partial") & (F.col(RECORDS) > 1)
    last, event = _last(), _event(F.col("change.image"), gap)
    return lambda events: events.groupBy("key").agg(*last).select(event)


def unfolded() -> Step:
    """As ``fold`` of events that have a key each of their own: rows of one clean snapshot."""
    event = _event(F.col("change.image"), F.lit(False))
    return lambda events: events.select(event)


def fold_filling(columns: Sequence[str], large: Sequence[str]) -> Step:
    """As ``fold``, with each placeholder replaced by the value if the batch holds it.

    ``large`` names those of ``columns`` that an UPDATE may leave out. ``filled`` of a partial image
    names the schema each of these values was written under; it has none for a value that the batch
    does not hold. ``read`` names those values which only a row of a snapshot has, that was read at
    ``read_lsn``: who has a newer row takes them from there. Several times slower than ``fold``: for
    batches with gaps.
    """
    last = [*_last(), *_kept(large)]
    known = F.when(F.col("change.partial"), _known(large)).alias("known")
    event = _event(_filled(columns, large), F.lit(False), F.col("known"))
    return lambda events: events.groupBy("key").agg(*last).select("*", known).select(event)


def each(columns: Sequence[str], large: Sequence[str]) -> Step:
    """Parsed events to one row each, in ``__event`` as ``fold_filling`` has it.

    A placeholder is replaced by the value if an earlier event of the batch holds it, none that was
    deleted in between.
    """
    if not large:
        return unfolded()
    known = F.when(F.col("change.partial"), _known_until(large)).alias("known")
    event = _event(_filled(columns, large), F.lit(False), F.col("known"))
    return lambda events: events.select("*", known).select(event)


def _known_until(large: Sequence[str]) -> Column:
    """The newest value of each large column up to an event, since the key was last deleted."""
    change = F.col("change")
    until = Window.partitionBy("key").orderBy("position").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )  # fmt: skip
    values = _values(change, large)

    def newest(name: str) -> Column:
        nothing = F.struct(F.lit(None).cast(_VALUE).alias("value"))
        told = F.when(change["op"] == DELETE, nothing).when(
            values[name].isNotNull(), F.struct(values[name].alias("value"))
        )
        return F.last(told, ignorenulls=True).over(until)["value"]

    return F.create_map(*(part for name in large for part in (F.lit(name), newest(name))))


def _last() -> list[Column]:
    change, position = F.col("change"), F.col("position")
    return [
        F.max(position).alias("position"),
        F.max_by(change, position).alias("change"),
        F.sum(RECORDS).alias(RECORDS),
        F.min(OLDEST_US).alias(OLDEST_US),
    ]


def _event(image: Column, gap: Column, known: Column | None = None) -> Column:
    change = F.col("change")
    filled, read, read_lsn = (F.lit(None).cast(kind) for kind in (_FILLED, _READ, "bigint"))
    if known is not None:
        filled = F.transform_values(known, lambda _, value: value["schema_id"])
        of_snapshots = F.map_filter(known, lambda _, value: value["read_lsn"].isNotNull())
        read = F.map_keys(of_snapshots)
        # All of one row: what stands before it is not looked at.
        read_lsn = F.get(F.map_values(of_snapshots), F.lit(0))["read_lsn"]
    return F.struct(
        F.col("position.commit_lsn").alias("commit_lsn"),
        F.col("position.ordinal").alias("ordinal"),
        change["op"].alias("op"),
        image.alias("image"),
        change["schema_id"].alias("schema_id"),
        change["committed_us"].alias("committed_us"),
        change["record"].alias("record"),
        change["partial"].alias("partial"),
        change["unchanged"].alias("unchanged"),
        gap.alias("gap"),
        filled.alias("filled"),
        read.alias("read"),
        read_lsn.alias("read_lsn"),
        RECORDS,
        OLDEST_US,
    ).alias(EVENT)


def _kept(large: Sequence[str]) -> list[Column]:
    """What ``_known`` needs: the newest image without placeholders, every image with some."""
    position, change = F.col("position"), F.col("change")
    whole = F.when(~change["partial"], position)
    values = _values(change, large).alias("values")
    return [
        F.max(F.when(change["op"] == DELETE, position)).alias("deleted_at"),
        F.max(whole).alias("whole_at"),
        F.max_by(change, whole).alias("whole"),
        F.collect_list(F.when(change["partial"], F.struct(position, values))).alias("partials"),
    ]


def _values(change: Column, large: Sequence[str]) -> Column:
    """The large columns that a change carries, by name; NULL for those it leaves out."""
    image, of = change["image"], [change[n].alias(n) for n in ("schema_id", "read_lsn")]

    def value(name: str) -> Column:
        carried = F.struct(image[name].alias("text"), *of)
        return F.when(~left_out(change, name), carried)

    return F.create_map(*(part for name in large for part in (F.lit(name), value(name))))


def _known(large: Sequence[str]) -> Column:
    """The newest value of each large column since the key was last deleted, by name.

    What stood there before a delete belongs to another row and is not taken.
    """
    deleted_at = F.col("deleted_at")
    values = _values(F.col("whole"), large)
    whole = F.struct(F.col("whole_at").alias("position"), values.alias("values"))
    images = F.filter(
        F.array_append("partials", whole),
        lambda item: (
            item["position"].isNotNull() & (deleted_at.isNull() | (item["position"] > deleted_at))
        ),
    )
    nothing = (part for name in large for part in (F.lit(name), F.lit(None).cast(_VALUE)))
    return F.aggregate(
        F.array_sort(images, _by_position),
        F.create_map(*nothing),
        lambda known, item: F.map_zip_with(
            known, item["values"], lambda _, old, new: F.coalesce(new, old)
        ),
    )


def _by_position(one: Column, other: Column) -> Column:
    one, other = one["position"], other["position"]
    return F.when(one < other, -1).when(one > other, 1).otherwise(0)


def _filled(columns: Sequence[str], large: Sequence[str]) -> Column:
    """The image with each placeholder replaced by the value, if the batch has one."""
    image, partial = F.col("change.image"), F.col("change.partial")

    def text(name: str) -> Column:
        if name not in large:
            return image[name]
        known = F.col("known")[name]
        return F.when(partial & known.isNotNull(), known["text"]).otherwise(image[name])

    return F.struct(*(text(name).alias(name) for name in columns))
