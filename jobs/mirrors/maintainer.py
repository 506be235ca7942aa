"""One micro-batch of a view over mirrors: changes, touched keys, their rows made anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.applying import NOWHERE
from jobs.fold import EVENT, TRUNCATE
from jobs.mirrors.attempts import Attempts, read_attempts, write_attempts
from jobs.mirrors.changes import at, write_changes
from jobs.mirrors.mirror import Mirror
from jobs.mirrors.queries import Maintenance
from jobs.mirrors.rows import ParkedRows
from jobs.mirrors.storing import Store
from jobs.mirrors.touched import TouchedKeys, together
from jobs.sinks import COMMIT_LSN, Batch, Sink
from views.maintained import MaintainedView


class Maintainer:
    """Keeps a store equal to a view over mirrors in ``directory``, batch by batch."""

    def __init__(
        self,
        session: SparkSession,
        view: MaintainedView,
        columns: StructType,
        mirrors: Mapping[str, Mirror],
        directory: Path,
        parked: ParkedRows | None = None,
    ) -> None:
        """``parked`` are rows that could not be made or stored; None: such a row is an error."""
        self._session, self._view = session, view
        self._mirrors, self._directory = mirrors, directory
        self._maintenance = Maintenance(view, mirrors)
        self._touched = TouchedKeys(directory)
        self._store = Store(session, self._maintenance, columns, view, parked)

    def apply(
        self,
        rows: Mapping[str, pa.Table],
        sink: Sink,
        generation: str,
        number: int,
        end: Offsets,
        again: pa.Table | None = None,
    ) -> int:
        """Make the mirrors and the store equal to folded changes of tables; the keys touched.

        ``end`` is where the changes end in the topics. Whatever a killed attempt left behind is
        made good. ``again`` are keys to be made anew, whatever changed.
        """
        before = read_attempts(self._directory)
        now = before.begun(max(map(_highest, rows.values())), _truncated(rows))
        write_attempts(self._directory, now)
        changes = {
            name: write_changes(
                self._view.name, mirror, rows[name], before, now, now.truncated.get(name, NOWHERE)
            )
            for name, mirror in self._mirrors.items()
        }
        keys = self._maintenance.touched(self._session, changes, before.settled)
        keys = self._touched.with_unsettled(keys, before)
        keys = keys if again is None else together([keys, again])
        if len(keys):
            self._touched.keep(keys, now.last)
            batch = Batch(self._view.name, generation, number, len(keys))
            self._store.make_equal(keys, now.position, _oldest(rows), sink, batch)
        now = now.done(end)
        write_attempts(self._directory, now)
        self._touched.clear()
        self._tend(now)
        return len(keys)

    def _tend(self, settled: Attempts) -> None:
        """Write mirrors anew that hold much that is over."""
        littered = {name: one for name, one in self._mirrors.items() if one.littered}
        if not littered:
            return
        deletions = {name: mirror.newest_deletion() for name, mirror in littered.items()}
        known = {name: at for name, at in deletions.items() if at is not None}
        write_attempts(self._directory, settled.forgetting(known))
        for mirror in littered.values():
            mirror.rewrite()


def _highest(rows: pa.Table) -> int:
    return pc.max(rows.column(COMMIT_LSN)).as_py() or 0


def _oldest(rows: Mapping[str, pa.Table]) -> int | None:
    """When the oldest of the changes was committed, microseconds since 1970."""
    found = [pc.min(pc.struct_field(of.column(EVENT), "oldest_us")).as_py() for of in rows.values()]
    return min((at for at in found if at is not None), default=None)


def _truncated(rows: Mapping[str, pa.Table]) -> dict[str, Position]:
    """The newest TRUNCATE of each table that has one."""
    found = {}
    for name, of_table in rows.items():
        some = of_table.filter(pc.equal(pc.struct_field(of_table.column(EVENT), "op"), TRUNCATE))
        if len(some):
            found[name] = max(at(some))
    return found
