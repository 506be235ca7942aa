"""Which events of a batch are the poison, when the batch fails.

A batch that can be applied is not looked at: faults raise inside its plan, where they cost nothing.
One that fails is evaluated again. Records that are no events, and those of an unknown version, are
found by one look. Values that an expression does not take are found by halves: whichever half
fails is halved again, down to single keys, whose fault is then that key's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from cdc.errors import HeadwaterError
from cdc.lsn import Position
from jobs.batch.folded_rows import NO_EVENT
from jobs.batch.thresholds import FEW_ROWS
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.documents import key_text
from jobs.sinks.row_errors import RowsRefusedError, RowsUnfitError
from jobs.spark.event_values import JSON_OPTIONS
from jobs.spark.faults import POISON, translate
from jobs.spark.interpreter import interpreted
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.dead_letters.letter import Letter
from jobs.without_mirrors.dead_letters.parked_records import record_id, without
from jobs.without_mirrors.evaluation import Model, released
from jobs.without_mirrors.fold import EVENT
from jobs.without_mirrors.projection import project

_HEAD = (
    StructType()
    .add("op", StringType())
    .add("source", StructType().add("ordinal", LongType()).add("schema_id", StringType()))
)
_HASH = "__hash"
_RETRIED = 1_000


class Poison(NamedTuple):
    """An event that cannot be applied, by ``topic-partition-offset``. Of a key it is the last one,
    but where a view takes every event."""

    record: str
    cause: str


def isolate(model: Model, records: DataFrame, error: BaseException, at_most: int) -> list[Poison]:
    """What of ``records`` made their batch fail with ``error``; about ``at_most`` of it.

    Raises ``error`` when no single events are to blame.
    """
    found = translate(error, model.view.name)
    for part in Part:  # the batch may have been applied by parts
        if isinstance(found, RowsRefusedError | RowsUnfitError):
            poison = _refused(model, records, found, part)
        elif isinstance(found, POISON):
            poison = unreadable_or_unfit(model, records, at_most, part)
        else:
            raise error
        if poison:
            return poison
    raise error


def unreadable_or_unfit(
    model: Model, records: DataFrame, at_most: int, part: Part = Part.WHOLE
) -> list[Poison]:
    """Events that nobody can read or, if there are none, whose values cannot be held."""
    return _unreadable(model, records, at_most) or _unfit(model, records, at_most, part)


def last_events(model: Model, records: DataFrame, part: Part = Part.WHOLE) -> DataFrame:
    """The last event of each key as a row, or every one where the view takes every one; ``__event``
    names its ``record``."""
    return project(model.view, model.versions, ("op", "record"))(model.events(part)(records))


def failing(
    items: Sequence[int], fault_of: Callable[[Sequence[int]], HeadwaterError | None], at_most: int
) -> dict[int, HeadwaterError]:
    """The items that fail, by themselves, with the fault of each; at most ``at_most`` and one.

    ``fault_of`` tries some of them together. With p of n failing it is called about p log n times.
    """
    found: dict[int, HeadwaterError] = {}

    def search(part: Sequence[int], fault: HeadwaterError | None) -> None:
        """Of a part that fails; ``fault`` None: by itself it was not tried yet."""
        if len(found) > at_most:
            return
        if len(part) == 1:
            if (alone := fault or fault_of(part)) is not None:
                found[part[0]] = alone
            return
        half = len(part) // 2
        first, second = part[:half], part[half:]
        fault = fault_of(first)
        if fault is None:  # then it is the other half
            search(second, None)
            return
        search(first, fault)
        if len(found) <= at_most and (fault := fault_of(second)) is not None:
            search(second, fault)

    if items and (fault := fault_of(items)) is not None:
        search(items, fault)
    return found


def applied_but(
    letters: Iterable[Letter],
    records: DataFrame,
    attempt: Callable[[DataFrame], None],
    isolated: Callable[[DataFrame, BaseException, int], list[Poison]],
) -> dict[Letter, str]:
    """``attempt`` what letters hold, whose events are ``records``, without whole keys of which some
    is refused, as ``isolated`` finds them; the refused ones, with the cause."""
    by_id = {letter.id: letter for letter in letters}
    left: dict[Letter, str] = {}
    while True:
        owners = {letter.owner for letter in left if letter.owner is not None}
        flowing = without(records, owners, {one.id for one in left if one.owner is None})
        try:
            attempt(flowing)
            return left
        except Exception as error:
            found = {by_id[one.record]: one.cause for one in isolated(flowing, error, _RETRIED)}
            if found.keys() <= left.keys():
                raise
            left |= found


def _unreadable(model: Model, records: DataFrame, at_most: int) -> list[Poison]:
    """Records that are no events, and events of a version that nobody described."""
    event = F.from_json(F.col("value").cast("string"), _HEAD, JSON_OPTIONS)
    known = event["op"].isNotNull() & event["source"]["ordinal"].isNotNull()
    described = F.coalesce(event["source"]["schema_id"].isin(list(model.versions)), F.lit(False))
    told = records.where("value IS NOT NULL").select(
        record_id().alias("record"), known.alias("known"), described.alias("described")
    )
    rows = told.where(~(F.col("known") & F.col("described"))).limit(at_most + 1).collect()
    return [Poison(row.record, _UNDESCRIBED if row.known else NO_EVENT) for row in rows]


_UNDESCRIBED = "an unknown schema_id"


def _unfit(model: Model, records: DataFrame, at_most: int, part: Part) -> list[Poison]:
    """Events, of ``last_events``, with a value that cannot be held or computed with."""
    folded = model.events(part)(records)
    projected = project(model.view, model.versions)
    record = F.col(EVENT)["record"]
    held = folded.withColumn(_HASH, F.xxhash64(record)).persist()
    with released(held):
        hashes = sorted({row[0] for row in held.select(_HASH).collect()})
        few = len(hashes) <= FEW_ROWS

        def fault_of(part: Sequence[int]) -> HeadwaterError | None:
            some = held.where(F.col(_HASH).between(part[0], part[-1]))
            return _fault(projected(some), model.view.name, few)

        found = failing(hashes, fault_of, at_most)
        rows = held.where(F.col(_HASH).isin(list(found))).select(_HASH, record).collect()
    return [Poison(id_, found[hash_].message) for hash_, id_ in rows]


def _fault(rows: DataFrame, view: str, few: bool) -> HeadwaterError | None:
    """Why rows cannot be evaluated. Raises what is no fault of theirs."""
    try:
        with interpreted(rows.sparkSession, few):
            rows.write.format("noop").mode("overwrite").save()  # every column, and nothing is kept
    except Exception as error:
        found = translate(error, view)
        if not isinstance(found, POISON):
            raise
        return found
    return None


def _refused(
    model: Model, records: DataFrame, error: RowsRefusedError | RowsUnfitError, part: Part
) -> list[Poison]:
    """The events behind rows that a store does not take."""
    causes = {(row.id, row.position): row.cause for row in error.rows}
    id_ = key_text(model.columns, model.view.key)
    some = id_.isNull() | id_.isin([key for key, _ in causes if key is not None])
    rows = (
        last_events(model, records, part)
        .where(some)
        .select(id_.alias("id"), COMMIT_LSN, ORDINAL, F.col(EVENT)["record"].alias("record"))
        .collect()
    )
    at = [(row.record, (row.id, Position(row[COMMIT_LSN], row[ORDINAL]))) for row in rows]
    return [Poison(record, causes[of]) for record, of in at if of in causes]
