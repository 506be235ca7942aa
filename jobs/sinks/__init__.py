"""Stores that views are kept in: one file a store, one contract for all.

A sink receives folded micro-batches and makes the store equal to them. Whatever is applied twice,
or late, changes nothing: every write is guarded by the row's position. The rows of ``Sink.apply``
are one per touched key, with the view's columns (typed) and

``__deleted``       boolean: the row is gone; then only the key columns are not null
``__commit_lsn``    bigint: first part of the position of the change this row results from
``__ordinal``       bigint: its second part
``__unchanged``     array<string>: view columns whose value is unchanged TOAST, keep the stored one
``__committed_at``  timestamp: when the source committed it

A sink that keeps history (``jobs.sinks.delta.history.frames``) is given one row for each change in
place of each key, and ``__op``, what the source did. A row whose ``__op`` is ``t`` has no key: a
TRUNCATE.

A row that is newer than what the store holds, names ``__unchanged`` columns and has no live row
there to take them from (its WHERE let it in only now) is refused: the value is unknown. So is one
whose key is null, and one that the store will never take. A sink writes the others, or none of the
batch, and raises a ``refusing.RowsError`` that names the refused: whoever gave it the batch parks
them and gives it the others again.

A store that is down is retried by the sink, up to ``config.apply.retry_s``; then
``RetryableError`` ends the view. A batch that a store refuses for good is a ``SinkError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cdc.lsn import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cdc.config import Store, View

DELETED = "__deleted"
COMMIT_LSN = "__commit_lsn"
ORDINAL = "__ordinal"
UNCHANGED = "__unchanged"
COMMITTED_AT = "__committed_at"
OP = "__op"
CONTROL_COLUMNS = (DELETED, COMMIT_LSN, ORDINAL, UNCHANGED, COMMITTED_AT)


class Batch(NamedTuple):
    """Which micro-batch is being applied; a replayed one has the same values."""

    view: str
    generation: str
    """UUID of the checkpoint: batch numbers start again at 0 with a new one."""
    number: int
    keys: int
    """Touched keys: no more rows than that are applied, but where a sink keeps history."""


class ViewRow(NamedTuple):
    """A stored row, as ``Sink.scan`` gives it."""

    key: tuple[object, ...]
    position: Position
    values: dict[str, object]


class Sink(Protocol):
    """One view in one store."""

    def prepare(self, columns: StructType, key: tuple[str, ...]) -> bool:
        """Create the store's object, or add the columns it lacks; true if it was created.

        Called once before the first batch and again when the view gains columns. Raises
        ``ViewError``, showing both, when what is stored does not fit ``columns``.
        """

    def apply(self, rows: DataFrame, batch: Batch) -> None:
        """Make the store equal to ``rows`` where they are newer than what it holds."""

    def truncate(self, before: Position, batch: Batch) -> None:
        """Remove every row whose position is below ``before``."""

    def scan(self) -> Iterator[ViewRow]:
        """Every row that is not deleted."""

    def close(self) -> None:
        """Release connections. Calling it twice is fine."""


def open_sink(
    config: Store,
    view: str,
    spark: SparkSession | None,
    retry_s: float = 60.0,
    generation: int | None = None,
    declared: View | None = None,
    history: str = "",
) -> Sink:
    """The sink of one view in a configured store.

    ``spark`` is needed by Delta only. ``retry_s`` bounds how long a store that is down is waited
    for. ``generation`` names one (``jobs.sinks.generations``); None is the one that people read
    when ``prepare`` is called, or the first. ``declared`` is what the configuration says of the
    view, for what a store lets it choose; ``history`` what the generation was declared with.
    Clients are imported here, so that a store that is not used needs none.
    """
    if config.kind == "delta":
        from jobs.sinks.delta.history.table import DeltaHistory
        from jobs.sinks.delta.sink import DeltaSink
        from jobs.sinks.delta.table import DeltaView

        table = DeltaView(config, view, spark, retry_s, generation, declared, history)
        return DeltaHistory(table) if history else DeltaSink(table)
    if config.kind == "opensearch":
        from jobs.sinks.opensearch.sink import OpenSearchSink

        return OpenSearchSink(config, view, retry_s, generation, declared)
    if config.kind == "postgres":
        from jobs.sinks.postgres.sink import PostgresSink

        return PostgresSink(config, view, retry_s, generation)
    from jobs.sinks.redis.sink import RedisSink

    return RedisSink(config, view, retry_s, generation, declared)
