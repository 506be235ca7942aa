"""Values that an update left out, and that only a row of a snapshot has, of its batch.

Where a table joins the stream, a row that was read at L can stand behind changes that were
committed after L, and that earlier batches had. An update behind both, in the row's batch, is
filled from the row (``fold_filling``): wrongly where one of those changes had another value.

So where something was applied before that is newer than such a row, the store is given the rows of
snapshots first, over which it keeps what is newer, and then the other changes, for which it has the
values. A row that WHERE left out it does not have, nor what an expression was computed from: for
views with these the batch is evaluated behind what earlier ones had of its keys
(``jobs.without_mirrors.earlier_changes``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.lsn import Position
from jobs.sinks.contract import Batch
from jobs.spark.event_values import JSON_OPTIONS, toastable
from jobs.without_mirrors.batch_counts import Account
from jobs.without_mirrors.batch_part import Part
from jobs.without_mirrors.evaluation import Applier, released
from views.spark.resolution import ResolvedView

_KEY: Final = "map<string, string>"
Evaluate = Callable[[DataFrame, Part | None], tuple[DataFrame, Account]]
"""``evaluation.evaluate`` of a view's model."""


def apply_records(
    view: ResolvedView,
    records: DataFrame,
    number: int,
    applier: Applier,
    evaluate: Evaluate,
    before: Callable[[], DataFrame],
) -> tuple[Batch, Account]:
    """Apply batch ``number``. ``before`` gives what the topic has of the stream before it."""
    held, counted = evaluate(records, Part.WHOLE if applier.fills else None)
    with released(held):
        read_at = counted.filled
        if read_at is None or not (
            applier.begins_behind(read_at) or applier.may_have_newer(read_at)
        ):
            return applier.apply(held, counted, number), counted
    if applier.begins_behind(read_at) or _has_all(view):
        _applied(records, Part.READ, number, applier, evaluate)
        batch, _ = _applied(records, Part.STREAMED, number, applier, evaluate)
    else:
        earlier = before()
        applier.learn(partial(_newest, earlier))
        batch, _ = _applied(with_earlier(records, earlier), Part.WHOLE, number, applier, evaluate)
    applier.fills = True
    return batch, counted


def _applied(
    records: DataFrame, part: Part, number: int, applier: Applier, evaluate: Evaluate
) -> tuple[Batch, Account]:
    held, counted = evaluate(records, part)
    step = part.value if part is Part.READ else ""
    with released(held):
        return applier.apply(held, counted, number, step), counted


def _has_all(view: ResolvedView) -> bool:
    """Whether the store has each row of the table, and each large value that the view reads."""
    columns = (view.table.column(name) for name in view.computed_from)
    return view.where is None and not any(one and toastable(one.type) for one in columns)


def with_earlier(records: DataFrame, before: DataFrame) -> DataFrame:
    """A batch, and before it what earlier ones had of its keys: of the same values, which a key may
    have under other names."""
    values = F.map_values(F.from_json(F.col("key").cast("string"), _KEY, JSON_OPTIONS))
    keys = records.select(values.alias("of")).distinct()
    names = ("key", "value", "topic", "partition", "offset", "timestamp")
    earlier = before.join(keys, values == F.col("of"), "left_semi")
    return earlier.select(*names).unionByName(records.select(*names))


def _newest(changes: DataFrame) -> Position:
    lsn = F.get_json_object(F.col("value").cast("string"), "$.source.commit_lsn").cast("bigint")
    (found,) = changes.agg(F.coalesce(F.max(lsn), F.lit(-1)).alias("lsn")).collect()
    return Position(found.lsn + 1, 0)  # above all that was committed there
