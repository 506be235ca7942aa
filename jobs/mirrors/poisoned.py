"""Which events are the poison of a batch of a view over several tables (``jobs.isolating``)."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from cdc.errors import HeadwaterError
from jobs.applying import Model
from jobs.faults import POISON
from jobs.isolating import Poison, standing_at, unreadable_or_unfit
from jobs.sinks.refusing import RowsUnfitError


def poison_of(
    tables: Iterable[tuple[Model, DataFrame]], fault: HeadwaterError, at_most: int
) -> list[Poison]:
    """Of models and their records: about ``at_most`` of each that made the batch fail."""
    found: list[Poison] = []
    for model, records in tables:
        if isinstance(fault, RowsUnfitError):  # a mirror lacks what these left out
            causes = {row.position: row.cause for row in fault.rows}
            found += standing_at(model, records, causes)
        elif isinstance(fault, POISON):
            found += unreadable_or_unfit(model, records, at_most)
    return found
