"""Which events are the poison of a batch of a view over several tables
(``jobs.without_mirrors.dead_letters.bisection``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.errors import HeadwaterError
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, ORDINAL
from jobs.sinks.row_errors import Refused, RowsUnfitError
from jobs.sinks.schema_evolution import quoted
from jobs.spark.faults import POISON
from jobs.without_mirrors.dead_letters.bisection import Poison, last_events, unreadable_or_unfit
from jobs.without_mirrors.evaluation import Model
from jobs.without_mirrors.fold import EVENT


def poison_of(
    tables: Iterable[tuple[Model, DataFrame]], fault: HeadwaterError, at_most: int
) -> list[Poison]:
    """Of models and their records: about ``at_most`` of each that made the batch fail."""
    found: list[Poison] = []
    for model, records in tables:
        if isinstance(fault, RowsUnfitError):  # a mirror lacks what these left out
            found += _unfit(model, records, fault.rows)
        elif isinstance(fault, POISON):
            found += unreadable_or_unfit(model, records, at_most)
    return found


def _unfit(model: Model, records: DataFrame, rows: Sequence[Refused]) -> list[Poison]:
    """The events behind rows that a mirror does not take. All rows of a snapshot stand at one
    position, so that it takes more to tell one that has no key."""
    causes = {(row.id is None, row.position): row.cause for row in rows}
    places = [F.struct(*(F.lit(part).cast("bigint") for part in at)) for _, at in causes]
    keyless = reduce(or_, (F.col(quoted(name)).isNull() for name in model.view.key))
    told = (
        last_events(model, records)
        .where(F.struct(COMMIT_LSN, ORDINAL).isin(places))
        .select(keyless, COMMIT_LSN, ORDINAL, F.col(EVENT)["record"])
        .collect()
    )
    at = [((no_key, Position(lsn, ordinal)), record) for no_key, lsn, ordinal, record in told]
    return [Poison(record, causes[of]) for of, record in at if of in causes]
