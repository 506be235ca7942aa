"""A batch of changes for a table that keeps what rows were, in Arrow. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, OP, ORDINAL, UNCHANGED
from jobs.sinks.delta.history.arrow_order import BESIDE, Ordered, as_columns, in_order
from jobs.sinks.delta.history.history_reader import Question
from jobs.sinks.delta.history.spark_order import HELD, LIVE
from jobs.sinks.delta.small_merge import null_keys


class Changes:
    """``changes`` as ``Sink.apply`` has its rows; ``columns`` are those that the table has beside
    ``delta_history_columns.CONTROL``, of which the changes may lack some."""

    def __init__(self, columns: pa.Schema, key: tuple[str, ...], changes: pa.Table) -> None:
        self._columns, self._key = columns, key
        whole = with_op(changes)
        truncates = pc.equal(whole.column(OP), TRUNCATE)
        self.rows = _rows(pa.schema([*columns, *BESIDE]), whole.filter(pc.invert(truncates)))
        at = pa.schema(BESIDE[:3])
        once = as_columns(at, whole.filter(truncates)).group_by([COMMIT_LSN, ORDINAL])
        latest = once.aggregate([(COMMITTED_AT, "max")])
        self.truncates = pa.table([latest.column(n) for n in (0, 1, 2)], at.names)
        """Each once: they stand in every partition."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.truncates)

    def unkeyed(self) -> list[Position]:
        """Where changes are of which a part of the key is null."""
        return null_keys(self.rows, self._key)

    def question(self, every: bool = False) -> Question:
        """What they ask of the table: the columns they keep values of, or ``every`` one."""
        lowest = [pc.min(part.column(COMMIT_LSN)).as_py() for part in (self.rows, self.truncates)]
        unchanged = set(pc.list_flatten(self.rows.column(UNCHANGED)).to_pylist())
        kept = unchanged & {*self._columns.names} - {*self._key}
        deleted = pc.any(pc.invert(self.rows.column(LIVE))).as_py()
        return Question(
            columns=self._columns,
            key=self._key,
            keys=None if len(self.truncates) else self.rows.select(self._key),
            since=min(lsn for lsn in lowest if lsn is not None),
            values=frozenset(self._columns.names if every else kept),
            before=bool(kept or deleted or len(self.truncates)),
        )

    def in_order(self, held: pa.Table) -> Ordered:
        """With what the table holds, whose rows come first."""
        return in_order(pa.concat_tables([held, self.rows]), self._key, self.truncates)


def with_op(changes: pa.Table) -> pa.Table:
    """With what was done to each row; those of a repair are read, or gone."""
    if OP in changes.column_names:
        return changes
    return changes.append_column(OP, pc.if_else(changes.column(DELETED), DELETE, SNAPSHOT))


def _rows(schema: pa.Schema, changes: pa.Table) -> pa.Table:
    held = pa.array([False] * len(changes), pa.bool_())
    live = pc.invert(changes.column(DELETED))
    return as_columns(schema, changes, **{LIVE: live, HELD: held})
