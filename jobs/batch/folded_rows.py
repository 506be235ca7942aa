"""What a micro-batch is folded to: one row for the last change of each key. Pure.

Order is the position's (commit LSN, ordinal), never the offset's: a row of a snapshot, ordinal 0,
loses against any change committed at its LSN or later, wherever it stands in the topic.

A key has one row for each period of a table version (``jobs.batch.version_periods``), as the
records of its partition tell, that its records of the batch are of: columns may have exchanged
their names in between. Records without a
key are not folded, but for TRUNCATE, which stands in every partition of its topic: the newest is
kept, or the newest of each part that was read by itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.batch.version_periods import Periods

NO_EVENT: Final = "not an event of Headwater"
"""Why a record was folded into nothing."""

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.string()),
        ("op", pa.string()),
        ("commit_lsn", pa.int64()),
        ("ordinal", pa.int64()),
        ("schema_id", pa.string()),
        ("committed_us", pa.int64()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("unchanged", pa.list_(pa.string())),
        ("read_lsn", pa.int64()),
        ("records", pa.int64()),
        ("oldest_us", pa.int64()),
        ("cause", pa.string()),
    ]
)
"""``topic, partition, offset``: the record of the change. ``key``, ``before`` and ``after``: JSON.
``unchanged``: the columns of ``after`` whose values neither the change nor an earlier one of the
batch carries. With ``read_lsn`` a row of a snapshot has them, which was read there: ``after`` has
its values, which count where nobody has a newer row. ``records``: how many were folded into the
row. ``committed_us``: when the change was committed, ``oldest_us``: the oldest streamed one folded
into it, in microseconds since 1970.

A record that is no event of Headwater has ``op`` null and a ``cause``; it is folded into nothing.
"""


def count(table: pa.Table) -> int:
    """How many records were folded into the rows."""
    return int(pc.sum(table.column("records")).as_py() or 0)


def oldest_us(table: pa.Table) -> int | None:
    """When the oldest streamed change of a batch was committed, None without one."""
    found = pc.min(table.column("oldest_us")).as_py()
    return None if found is None else int(found)


def steps(table: pa.Table) -> list[pa.Table]:
    """The rows as one table, or, where a large value may have to be taken from a row of an earlier
    table version, as several that are to be applied one after the other: the periods of versions,
    those of all topics together."""
    if not is_apart(table):
        return [table]
    numbers = pa.array(_numbers(table), pa.int64())
    most = pc.max(numbers).as_py()
    return [table.filter(pc.equal(numbers, number)) for number in range(most + 1)]


def is_apart(table: pa.Table) -> bool:
    """Whether a row lacks a large value, which a row of another table version may have."""
    lengths = pc.list_value_length(table.column("unchanged"))
    return bool(pc.sum(pc.greater(lengths, 0)).as_py()) and has_versions(table)


def has_versions(table: pa.Table) -> bool:
    """Whether the rows of a topic are of several table versions."""
    events = table.select(["topic", "schema_id"]).drop_null()
    pairs = events.group_by(["topic", "schema_id"]).aggregate([])
    return bool(pairs.num_rows > pc.count_distinct(events.column("topic")).as_py())


def _numbers(table: pa.Table) -> list[int]:
    """The period of each row; 0 of what is no event."""
    columns = ("topic", "commit_lsn", "ordinal", "schema_id")
    rows = list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    periods = defaultdict[str, Periods](Periods)
    for topic, *place in rows:
        if None not in place:
            periods[topic].add(*place)
    return [0 if None in place else periods[topic].number(*place) for topic, *place in rows]
