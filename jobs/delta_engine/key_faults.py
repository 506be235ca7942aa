"""Changed rows with which the view's keys cannot be computed: a cast in a key, or a division.

Which rows of the view are meant is not known then, so that no key of the view can be parked. What
changed is known: the rows for whose images the query for keys fails are found by halves, and the
event of each is parked with its own key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from cdc.errors import HeadwaterError
from jobs.delta_engine.mirrors.changes import Changed, at, keyed
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.queries import Maintenance
from jobs.sinks.contract import DELETED
from jobs.spark.faults import POISON, translate
from jobs.without_mirrors.dead_letters.bisection import Poison, failing
from jobs.without_mirrors.fold import EVENT


def culprits(
    session: SparkSession,
    view: str,
    maintenance: Maintenance,
    mirrors: Mapping[str, Mirror],
    events: Mapping[str, pa.Table],
    at_most: int,
) -> list[Poison]:
    """Of ``events`` by table, which the mirrors have, those to blame: about ``at_most`` of them.
    They are as ``jobs.without_mirrors.dead_letters.bisection.last_events`` gives them.

    All are of one table. Rows of others may fail only beside theirs, as does a division by a zero
    that came with them: that is seen when the rest is tried again. Raises what is no fault of rows.
    """
    nothing = {name: _came(mirror, mirror.arrow.empty_table()) for name, mirror in mirrors.items()}
    for name, mirror in mirrors.items():
        held = mirror.find(_keys(mirror, events[name]))
        held = held.filter(pc.invert(held.column(DELETED)))

        def fault_of(
            part: Sequence[int], name: str = name, mirror: Mirror = mirror, held: pa.Table = held
        ) -> HeadwaterError | None:
            some = _came(mirror, held.take(pa.array(part, pa.int64())))
            return _fault_of_keys(session, view, maintenance, {**nothing, name: some})

        records = _records(mirror, events[name])
        versions = zip(keyed(held, mirror.key), at(held), strict=True)
        fresh = {i: records[one] for i, one in enumerate(versions) if one in records}
        if found := failing(list(fresh), fault_of, at_most):
            return [Poison(fresh[i], fault.message) for i, fault in found.items()]
    return []


def _fault_of_keys(
    session: SparkSession, view: str, maintenance: Maintenance, changes: Mapping[str, Changed]
) -> HeadwaterError | None:
    """Why the keys that changed rows touch cannot be computed. Raises what is no fault of rows."""
    try:
        maintenance.touched(session, changes, 0)
    except Exception as error:
        fault = translate(error, view)
        if not isinstance(fault, POISON):
            raise
        return fault
    return None


def _keys(mirror: Mirror, rows: pa.Table) -> pa.Table:
    return rows.select(mirror.key).drop_null().group_by(list(mirror.key)).aggregate([])


def _records(mirror: Mirror, events: pa.Table) -> dict[tuple[object, ...], str]:
    """The records of events, by what identifies a version: all of a snapshot stand at one place."""
    versions = zip(keyed(events, mirror.key), at(events), strict=True)
    names = pc.struct_field(events.column(EVENT), "record").to_pylist()
    return dict(zip(versions, names, strict=True))


def _came(mirror: Mirror, rows: pa.Table) -> Changed:
    """Rows that came, and nothing else."""
    names = mirror.columns.names
    return Changed(mirror.arrow.empty_table().select(names), rows.select(names))
