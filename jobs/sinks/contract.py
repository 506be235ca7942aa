"""The contract of a store: its sink, and the generations of a view in it.

A sink receives folded micro-batches and makes the store equal to them. Whatever is applied twice,
or late, changes nothing: every write is guarded by the row's position. The rows of ``Sink.apply``
are one per touched key, with the view's columns (typed) and

``__deleted``       boolean: the row is gone; then only the key columns are not null
``__commit_lsn``    bigint: first part of the position of the change this row results from
``__ordinal``       bigint: its second part
``__unchanged``     array<string>: view columns whose value is unchanged TOAST, keep the stored one
``__committed_at``  timestamp: when the source committed it

A sink that keeps history (``jobs.sinks.delta.history.spark_order``) is given one row for each
change in place of each key, and ``__op``, what the source did. A row whose ``__op`` is ``t`` has no
key: a TRUNCATE.

A row that is newer than what the store holds, names ``__unchanged`` columns and has no live row
there to take them from (its WHERE let it in only now) is refused: the value is unknown. So is one
whose key is null, and one that the store will never take. A sink writes the others, or none of the
batch, and raises a ``refusing.RowsError`` that names the refused: whoever gave it the batch parks
them and gives it the others again.

A store that is down is retried by the sink, up to ``config.apply.retry_s``; then
``RetryableError`` ends the view. A batch that a store refuses for good is a ``SinkError``.

A generation is a place of its own, told by its number. Whoever reads the view reads one of them,
the live one, and finds another whole one after a switch, never something empty or half filled.

    Delta       ``<path>/<view>@<n>`` until it is live; a switch is one commit on ``<path>/<view>``
    OpenSearch  index ``<view>-<n>``; the alias ``<view>`` is moved in one request
    Redis       rows ``<view>@<n>:<key>``; ``<view>@live`` is set to ``<view>@<n>``
    PostgreSQL  table ``<view>@<n>``; the view ``<view>`` is replaced in one transaction
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cdc.lsn import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from jobs.sinks.rows import Rows

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

    def scan(self, keys: Collection[tuple[object, ...]] | None = None) -> Iterator[ViewRow]:
        """Every row that is not deleted, of these keys alone if some are given: each value as
        ``ViewRow.key`` has it."""

    def close(self) -> None:
        """Release connections. Calling it twice is fine."""


class Live(NamedTuple):
    """What readers see. ``mark`` is what ``switch`` needs to come back to it later. ``history``:
    as what it keeps what rows were, which no snapshot brings back."""

    number: int
    mark: str
    history: str = ""


class Generations(Protocol):
    """One view's generations in one store. Every call may be repeated after a crash."""

    def live(self) -> Live | None:
        """What readers see, None while there is nothing."""

    def load(
        self,
        number: int,
        rows: DataFrame | Iterable[Rows],
        columns: StructType,
        key: tuple[str, ...],
    ) -> None:
        """Make a generation of ``rows``: each a live row of ``Sink.apply``'s form, or finished.

        Whatever the place held is gone first. Readers see nothing of it. Raises what
        ``Sink.prepare`` and ``Sink.apply`` raise.
        """

    def switch(self, number: int, mark: str = "") -> None:
        """Let readers see a generation, from one moment to the next; nothing if they do.

        ``mark`` is what ``live`` gave when the generation was left, empty if it never was live.
        """

    def drop(self, number: int) -> None:
        """Delete a generation's rows; of the live one, the view is gone from the store."""

    def close(self) -> None:
        """Release connections. Calling it twice is fine."""
