"""Rows of a snapshot that stand in a table's topic behind what deleted them.

Where a table joins the stream its rows come from another process than its changes, so that a row
read at L can stand behind its delete, which was committed after L
(``jobs.without_mirrors.late_snapshot_rows``). A mirror knows the deletions since it was last
written anew. For a row from before a deletion that it does not hold any more the topic is read once
more, up to the batch, for what is deleted in the end.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from cdc.events.codes import SNAPSHOT
from cdc.lsn import Position
from jobs.delta_engine.mirrors.changes import at, keyed, positions
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.without_mirrors.fold import EVENT


def without_returned(
    rows: pa.Table,
    mirror: Mirror,
    forgotten: Position | None,
    deleted: Callable[[pa.Table], pa.Table],
) -> pa.Table:
    """Folded rows without those that were deleted before them, at a later position.

    ``forgotten`` is the newest deletion that the mirror does not hold any more. ``deleted`` gives,
    of some keys, those that the records before the batch delete in the end, with their positions.
    """
    if forgotten is None:
        return rows
    read = pc.equal(pc.struct_field(rows.column(EVENT), "op"), SNAPSHOT)
    late = {i for i, (is_read, where) in enumerate(zip(read.to_pylist(), at(rows), strict=True))
            if is_read and where < forgotten}  # fmt: skip
    if not late:
        return rows
    keys = keyed(rows, mirror.key)
    some = rows.take(pa.array(sorted(late), pa.int64()))
    held = positions(mirror.find(some.select(mirror.key)), mirror.key)
    unknown = sorted(i for i in late if keys[i] not in held)
    if not unknown:
        return rows
    some = rows.take(pa.array(unknown, pa.int64()))
    gone = positions(deleted(some.select(mirror.key)), mirror.key)
    where = list(at(rows))
    over = {i for i in unknown if keys[i] in gone and gone[keys[i]] > where[i]}
    return rows.take(pa.array([i for i in range(len(rows)) if i not in over], pa.int64()))
