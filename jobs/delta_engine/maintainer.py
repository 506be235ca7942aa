"""One micro-batch of a view over mirrors: changes, touched keys, their rows made anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from cdc.events.codes import TRUNCATE
from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.delta_engine.key_faults import culprits
from jobs.delta_engine.mirrors.attempts import Attempts, read_attempts, write_attempts
from jobs.delta_engine.mirrors.changes import Changed, at, write_changes
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.parked_rows import ParkedRows
from jobs.delta_engine.queries import Maintenance
from jobs.delta_engine.store import Store, is_of_rows
from jobs.delta_engine.touched_keys import TouchedKeys, together
from jobs.sinks.contract import COMMIT_LSN, Batch, Sink
from jobs.sinks.delta.upkeep import Upkeep
from jobs.sinks.schema_evolution import quoted
from jobs.without_mirrors.dead_letters.bisection import Poison
from jobs.without_mirrors.evaluation import NOWHERE
from jobs.without_mirrors.fold import EVENT
from views.spark.view import MaintainedView

UPKEEP_BATCHES = 20
VACUUM_S = 3600.0
"""A mirror's old files are deleted sooner than a view's, for nobody reads them."""


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
        self._maintenance = Maintenance(view, mirrors, directory)
        self._touched = TouchedKeys(directory)
        self._is_filled = False
        self._store = Store(session, self._maintenance, columns, view, parked)
        self._upkeep = [
            Upkeep(view.name, f"mirror {name}", UPKEEP_BATCHES, one.compact, one.vacuum, VACUUM_S)
            for name, one in mirrors.items()
        ]

    def apply(
        self,
        rows: Mapping[str, pa.Table],
        sink: Sink,
        generation: str,
        number: int,
        again: pa.Table | None = None,
        lsn: int = 0,
    ) -> int:
        """Make the mirrors and the store equal to folded changes of tables; the keys touched.

        Whatever a killed attempt left behind is made good. ``again`` are keys to be made anew,
        whatever changed. What is written stands at ``lsn`` or later, and so does all that is
        written after it. ``settle`` ends the attempt.
        """
        before = read_attempts(self._directory)
        self._is_filled = self._is_filled or any(one.versions for one in self._mirrors.values())
        first = before.last == before.settled and not self._is_filled
        now = before.begun(max(lsn, *map(_highest, rows.values())), _truncated(rows))
        write_attempts(self._directory, now)
        changes = {
            name: write_changes(
                self._view.name, mirror, rows[name], before, now, now.truncated.get(name, NOWHERE)
            )
            for name, mirror in self._mirrors.items()
        }

        def begun(keys: pa.Table) -> Batch:
            self._touched.keep(keys, now.last)
            return Batch(self._view.name, generation, number, len(keys))

        at_us, keys = _oldest(rows), None
        if first and again is None:  # the view had no row
            keys = self._store.fill(now.position, at_us, sink, begun)
        if keys is None:
            keys = self._maintenance.touched(self._session, changes, before.settled)
            keys = self._touched.with_unsettled(keys, before)
            keys = keys if again is None else together([keys, again])
            if len(keys):
                self._store.make_equal(keys, now.position, at_us, sink, begun(keys))
        return len(keys)

    def settle(self, end: Offsets) -> None:
        """Nothing is left to be done of what was applied, which ends there in the topics."""
        now = read_attempts(self._directory).done(end)
        write_attempts(self._directory, now)
        self._touched.clear()
        self._tend(now)
        for upkeep in self._upkeep:
            upkeep.after_batch()

    def keys(self) -> pa.Table:
        """The keys of all rows of the view, as the mirrors have them; perhaps others, where some
        rows cannot be made, which is for whoever writes them to find."""
        try:
            with self._maintenance.relations(self._session) as relations:
                rows = self._maintenance.everything(self._session, relations)
                return rows.select(*map(quoted, self._view.key)).toArrow()
        except Exception as error:
            if not is_of_rows(error, self._view.name):
                raise
        keys = self._maintenance.keys_at_hand()
        if keys is not None:
            return keys
        came = {}
        for name, mirror in self._mirrors.items():
            held = mirror.live(mirror.all())
            came[name] = Changed(held.slice(0, 0), held)
        return self._maintenance.touched(
            self._session, came, read_attempts(self._directory).settled
        )

    def culprits(self, events: Mapping[str, pa.Table], at_most: int) -> list[Poison]:
        """The last events, by table, of the attempt that failed, after which keys of the view
        cannot be computed. The mirrors are as they were before unsettled attempts then."""
        found = culprits(
            self._session, self._view.name, self._maintenance, self._mirrors, events, at_most
        )
        settled = read_attempts(self._directory).settled
        for mirror in self._mirrors.values():
            mirror.take_back(settled)
        return found

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
