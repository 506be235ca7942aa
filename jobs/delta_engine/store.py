"""A store made equal to a view over mirrors at touched keys, but for rows that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cdc.errors import HeadwaterError
from cdc.lsn import Position
from jobs.delta_engine.parked_rows import NamedKeys, ParkedRows
from jobs.delta_engine.queries import Maintenance
from jobs.delta_engine.touched_rows import made_anew, made_whole
from jobs.sinks.contract import Batch, Sink
from jobs.sinks.row_errors import RowsRefusedError, RowsUnfitError
from jobs.sinks.schema_evolution import quoted
from jobs.spark.faults import UnfitValueError, translate
from jobs.without_mirrors.dead_letters.bisection import failing
from views.spark.view import MaintainedView


class Store:
    """Rows of touched keys on their way to the sink. Without ``parked`` one that fails is an
    error."""

    def __init__(
        self,
        session: SparkSession,
        maintenance: Maintenance,
        columns: StructType,
        view: MaintainedView,
        parked: ParkedRows | None,
    ) -> None:
        self._session, self._maintenance, self._columns = session, maintenance, columns
        self._view, self._parked = view, parked

    def fill(
        self, at: Position, oldest_us: int | None, sink: Sink, begin: Callable[[pa.Table], Batch]
    ) -> pa.Table | None:
        """Write all rows of the view to a store that has none; their keys, of which ``begin`` is
        told before. None where that stops at single rows: they are to be written by their keys.

        Raises whatever is no row's own fault.
        """
        try:
            whole = made_whole(self._maintenance, self._session, self._columns, at, oldest_us)
            with whole as rows:
                keys = rows.select(*map(quoted, self._view.key)).toArrow()
                if len(keys):
                    sink.apply(rows, begin(keys))
        except Exception as error:
            if (
                self._parked is None
                or not self._parked.limit
                or not is_of_rows(error, self._view.name)
            ):
                raise
            return None
        self._tell(keys, {}, at)
        return keys

    def make_equal(
        self, keys: pa.Table, at: Position, oldest_us: int | None, sink: Sink, batch: Batch
    ) -> None:
        """Write the keys' rows at a position. Those that cannot be made or stored are parked, and
        what was parked and can be is not any more.

        Raises whatever is no row's own fault, and ``ViewError`` when too many would be parked.
        """
        left: dict[int, str] = {}
        while True:
            some = _without(keys, left)
            try:
                if len(some):
                    with self._made(some, at, oldest_us) as anew:
                        sink.apply(anew, batch)
                break
            except Exception as error:
                if self._parked is None or not self._parked.limit:
                    raise
                found = self._blamed(keys, left, at, error)
                if not found:
                    raise
                left |= found
                if len(left) > self._parked.limit:
                    break
        self._tell(keys, left, at)

    def _made(
        self, keys: pa.Table, at: Position, oldest_us: int | None = None
    ) -> AbstractContextManager[DataFrame]:
        return made_anew(self._maintenance, self._session, self._columns, keys, at, oldest_us)

    def _tell(self, keys: pa.Table, left: Mapping[int, str], at: Position) -> None:
        parked = self._parked
        if parked is None or not (left or parked.any):
            return
        named = self._named(keys)
        if left:
            parked.park({named.keys[i]: cause for i, cause in left.items()}, at)
        parked.free(key for i, key in enumerate(named.keys) if i not in left)

    def _named(self, keys: pa.Table) -> NamedKeys:
        return NamedKeys(self._session, keys, self._columns, self._view.key)

    def _blamed(
        self, keys: pa.Table, left: Mapping[int, str], at: Position, error: Exception
    ) -> dict[int, str]:
        """The rows that an attempt without those that are ``left`` out failed at, with causes."""
        assert self._parked is not None
        found = translate(error, self._view.name)
        if isinstance(found, RowsRefusedError | RowsUnfitError):
            causes = {row.id: row.cause for row in found.rows if row.position == at}
            ids = enumerate(self._named(keys).ids)
            return {i: causes[id_] for i, id_ in ids if id_ in causes and i not in left}
        if not isinstance(found, UnfitValueError):
            return {}

        def fault_of(part: Sequence[int]) -> HeadwaterError | None:
            return self._fault(keys.take(pa.array(part, pa.int64())), at)

        others = [i for i in range(len(keys)) if i not in left]
        faults = failing(others, fault_of, self._parked.limit)
        return {i: fault.message for i, fault in faults.items()}

    def _fault(self, keys: pa.Table, at: Position) -> HeadwaterError | None:
        """Why rows cannot be made. Raises what is no fault of theirs."""
        try:
            with self._made(keys, at) as anew:
                anew.count()
        except Exception as error:
            found = translate(error, self._view.name)
            if not isinstance(found, UnfitValueError):
                raise
            return found
        return None


def is_of_rows(error: Exception, view: str) -> bool:
    """Whether some rows of a view are at fault."""
    found = translate(error, view)
    return isinstance(found, RowsRefusedError | RowsUnfitError | UnfitValueError)


def _without(keys: pa.Table, left: Mapping[int, str]) -> pa.Table:
    if not left:
        return keys
    kept = [i for i in range(len(keys)) if i not in left]
    return keys.take(pa.array(kept, pa.int64()))
