"""Which rows of a view a replay reaches: those that records touch which come again.

The mirrors have had these records, and are not written. What a replay is for is the store: it may
be an older copy, or lack rows. What it has may so be made of any state since, and the keys of all
of them are looked for: with every version of the rows that the mirrors still hold, among every
version of the rows beside them, and with the images that the records carry, for a mirror that was
written anew has forgotten the versions before that.

A key that reads a LEFT JOIN's side is another one while nothing matches, and of the versions that
match nothing tells when they did not. So the keys are looked for once more for each set of such
occurrences, as if no row was ever in them. There are twice as many sets with each occurrence: of
more than a few, the keys in the newest state are looked for instead, and all rows that the store
has are made anew.

Found keys are made anew, so one too many costs time and nothing else. What is missed is a key that
a row had before the replay begins, where its mirror has forgotten that (decision 29).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.errors import HeadwaterError
from cdc.events.codes import TRUNCATE
from jobs.delta_engine.driver_rows import of_event
from jobs.delta_engine.key_faults import fault_of_keys
from jobs.delta_engine.mirrors.changes import Changed
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.queries import Held, Maintenance
from jobs.delta_engine.touched_keys import together
from jobs.spark.faults import POISON, translate
from jobs.without_mirrors.dead_letters.bisection import failing, unreadable_or_unfit
from jobs.without_mirrors.dead_letters.parked_keys import without
from jobs.without_mirrors.evaluation import Model
from views.spark.plan import key_queries
from views.spark.view import MaintainedView

_OCCURRENCES = 4
"""Of so many that a key reads behind LEFT JOIN, every set is asked for."""
_LEFT_OUT = 1_000
"""So many records that nobody can read are left out together."""


class Reached(NamedTuple):
    """Keys of the view, and by how many records."""

    keys: pa.Table
    records: int


class Reach:
    """Finds them for ``mirrors`` in ``directory``, fed by ``models`` of their tables.

    ``stored`` gives the keys of all rows that the store has, for what may concern any of them.
    """

    def __init__(
        self,
        session: SparkSession,
        view: MaintainedView,
        models: Mapping[str, Model],
        mirrors: Mapping[str, Mirror],
        directory: Path,
        stored: Callable[[], pa.Table],
    ) -> None:
        self._session, self._view, self._mirrors, self._stored = session, view, mirrors, stored
        self._models = {
            name: Model(model.view, model.versions, every=True) for name, model in models.items()
        }
        ever: dict[str, Held] = {name: _Ever(mirror) for name, mirror in mirrors.items()}
        beside = [query.occurrence for query in key_queries(view) if query.beside]
        self._is_any = len(beside) > _OCCURRENCES
        """Whether a key may be any that the store has."""
        sets = [frozenset[str]()] if self._is_any else _sets(beside)
        self._among = [Maintenance(view, ever, directory, never) for never in sets]
        if self._is_any:
            self._among.append(Maintenance(view, mirrors, directory))

    def of(self, records: Mapping[str, DataFrame]) -> Reached:
        """By the records of each table."""
        return self.of_events({name: self._events(name, of) for name, of in records.items()})

    def of_events(self, events: Mapping[str, pa.Table]) -> Reached:
        """By rows of each table, one for each event."""
        changes = {name: self._images(name, rows) for name, rows in events.items()}
        records = sum(map(len, events.values()))
        found = [self._touched(among, changes) for among in self._among]
        if (self._is_any and records) or any(map(_has_truncate, events.values())):
            found.append(self._stored())
        return Reached(together(found), records)

    def _events(self, name: str, records: DataFrame) -> pa.Table:
        """Each event of a table as a row. One that nobody can read is left out: it is parked, or
        was given up."""
        model, left = self._models[name], set[str]()
        while True:
            some = without(records, set(), left)
            try:
                return model.rows(some).toArrow()
            except Exception as error:
                if not isinstance(translate(error, self._view.name), POISON):
                    raise
                found = {one.record for one in unreadable_or_unfit(model, some, _LEFT_OUT)}
                if not found - left:
                    raise
                left |= found

    def _images(self, name: str, events: pa.Table) -> Changed:
        """The rows that events are of, as they ever were."""
        mirror = self._mirrors[name]
        none = mirror.arrow.empty_table().select(mirror.columns.names)
        keyed = events.filter(pc.not_equal(of_event(events, "op"), TRUNCATE))
        images = keyed.select(mirror.columns.names)
        if _has_truncate(events):
            held = mirror.ever(None)
        else:
            keys = images.select(mirror.key).drop_null()
            held = mirror.ever(keys.group_by(list(mirror.key)).aggregate([]))
        return Changed(pa.concat_tables([images.cast(none.schema), held]), none)

    def _touched(self, among: Maintenance, changes: Mapping[str, Changed]) -> pa.Table:
        """The keys that images touch, without the images for which no key can be computed."""
        try:
            return among.touched(self._session, changes, 0)
        except Exception as error:
            if not isinstance(translate(error, self._view.name), POISON):
                raise
        changes = {name: self._computable(among, name, changes) for name in changes}
        return among.touched(self._session, changes, 0)

    def _computable(self, among: Maintenance, name: str, changes: Mapping[str, Changed]) -> Changed:
        images, none = changes[name]
        nothing = {name: Changed(of.after, of.after) for name, of in changes.items()}

        def fault_of(part: Sequence[int]) -> HeadwaterError | None:
            some = Changed(images.take(pa.array(part, pa.int64())), none)
            changed = {**nothing, name: some}
            return fault_of_keys(self._session, self._view.name, among, changed)

        left = failing(range(len(images)), fault_of, len(images))
        kept = [i for i in range(len(images)) if i not in left]
        return Changed(images.take(pa.array(kept, pa.int64())), none)


class _Ever:
    """A mirror as it ever was, as far as it holds that: a ``jobs.delta_engine.queries.Held``
    without states."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.columns: StructType = mirror.columns

    @property
    def versions(self) -> int:
        return self._mirror.versions

    def frame(self, upto: int | None = None) -> DataFrame:  # noqa: ARG002
        return self._mirror.frame_ever()


def _sets(occurrences: Sequence[str]) -> Iterator[frozenset[str]]:
    """All of them, the empty one first."""
    for size in range(len(occurrences) + 1):
        yield from map(frozenset, combinations(occurrences, size))


def _has_truncate(events: pa.Table) -> bool:
    return bool(pc.any(pc.equal(of_event(events, "op"), TRUNCATE)).as_py())
