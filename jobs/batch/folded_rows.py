"""What a micro-batch is folded to: one row for the last change of each key. Pure.

Order is the position's (commit LSN, ordinal), never the offset's: a row of a snapshot, ordinal 0,
loses against any change committed at its LSN or later, wherever it stands in the topic.

A key has one row for each table version (``schema_id``) that its records of the batch have: columns
may have exchanged their names in between. Records without a key are not folded, but for TRUNCATE,
which stands in every partition of its topic: the newest is kept, or of a large batch the newest of
each part that a task read.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

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
        ("records", pa.int64()),
        ("oldest_us", pa.int64()),
        ("cause", pa.string()),
    ]
)
"""``topic, partition, offset``: the record of the change. ``key``, ``before`` and ``after``: JSON.
``unchanged``: the columns of ``after`` whose values neither the change nor an earlier one of the
batch carries. ``records``: how many were folded into the row. ``committed_us``: when the change was
committed, ``oldest_us``: the oldest streamed one folded into it, in microseconds since 1970.

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
    table version, as several that are to be applied one after the other: each has one row of a key
    at most, the earliest ones first. Versions have no order: a column that was added and dropped
    leaves the version that there was."""
    pairs = table.select(["topic", "schema_id"]).group_by(["topic", "schema_id"]).aggregate([])
    if pairs.num_rows == pc.count_distinct(table.column("topic")).as_py():
        return [table]
    lengths = pc.list_value_length(table.column("unchanged"))
    if not (pc.sum(pc.greater(lengths, 0)).as_py() or 0):
        return [table]
    numbers = pa.array(_numbers(table), pa.int64())
    most = pc.max(numbers).as_py()
    return [table.filter(pc.equal(numbers, number)) for number in range(most + 1)]


def _numbers(table: pa.Table) -> list[int]:
    """How many earlier rows of its key each row has. One without a key, which may be a TRUNCATE, is
    in no earlier step than a row that stands before it."""
    columns = ("commit_lsn", "ordinal", "topic", "key")
    rows = list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    found, counts, last = [0] * len(rows), dict[tuple[str, str], int](), dict[str, int]()
    for at in sorted(range(len(rows)), key=lambda at: (rows[at][0] or 0, rows[at][1] or 0)):
        _, _, topic, key = rows[at]
        if key is None:
            found[at] = last.get(topic, 0)
            continue
        found[at] = counts.get((topic, key), 0)
        counts[topic, key] = found[at] + 1
        last[topic] = max(last.get(topic, 0), found[at])
    return found
