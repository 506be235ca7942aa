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
    table version, as several that are to be applied one after the other."""
    versions = _versions(table)
    if all(len(ids) == 1 for ids in versions.values()):
        return [table]
    lengths = pc.list_value_length(table.column("unchanged"))
    if not (pc.sum(pc.greater(lengths, 0)).as_py() or 0):
        return [table]
    numbers = pa.array(
        versions[topic].index(schema_id)
        for topic, schema_id in zip(
            table.column("topic").to_pylist(), table.column("schema_id").to_pylist(), strict=True
        )
    )
    most = max(len(ids) for ids in versions.values())
    return [table.filter(pc.equal(numbers, number)) for number in range(most)]


def _versions(table: pa.Table) -> dict[str, list[str | None]]:
    """The versions of each topic, in the order of their first positions."""
    columns = ("commit_lsn", "ordinal", "topic", "schema_id")
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    found: dict[str, list[str | None]] = {}
    for _, _, topic, schema_id in sorted(rows, key=lambda row: (row[0] or 0, row[1] or 0)):
        ids = found.setdefault(topic, [])
        if schema_id not in ids:
            ids.append(schema_id)
    return found
