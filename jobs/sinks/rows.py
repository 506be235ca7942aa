"""Rows that a store is given finished, without Spark: the smallest part of a sink beside it.

The state database makes them in the form that the store writes (``jobs.state.views.store_rows``):
documents for Redis and OpenSearch, lines of COPY for PostgreSQL, an Arrow table for Delta. They are
guarded by position as those of ``Sink.apply``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from jobs.sinks.contract import Batch, Sink
from jobs.sinks.row_errors import (
    TOLD,
    Refused,
    RowsError,
    RowsRefusedError,
    RowsUnfitError,
    raise_together,
)

_WRITERS: Final = 2
"""Threads that write while rows are made: one waits for the server, the other one packs."""
_HINT: Final = "leave the column out, or turn it into text in the source"


@dataclass(frozen=True, slots=True)
class Rows:
    """``written`` are of the store's own form: ``list[Document]``, ``list[CopyRow]`` or a
    ``pyarrow.Table``. ``unfit`` are rows that hold what a view's columns cannot."""

    written: Any
    unfit: tuple[Refused, ...] = ()

    def __len__(self) -> int:
        return len(self.written) + len(self.unfit)


@runtime_checkable
class RowSink(Sink, Protocol):
    """A sink that takes finished rows, too."""

    def write_rows(self, rows: Rows, batch: Batch) -> None:
        """As ``apply``: raises a ``RowsError`` where all others, or none, have been written."""


def write(view: str, rows: Rows, writer: Callable[[Any], None]) -> None:
    """Give ``writer`` what can be written; raise what it raises, and tell of unfit rows."""
    errors: list[RowsError] = []
    if len(rows.written):
        try:
            writer(rows.written)
        except (RowsRefusedError, RowsUnfitError) as error:
            errors.append(error)
    if rows.unfit:
        errors.append(unfit_rows(view, rows.unfit))
    raise_together(errors)


def unfit_rows(view: str, rows: Sequence[Refused]) -> RowsUnfitError:
    """Rows whose values no column of the view can hold."""
    return RowsUnfitError(f"view {view}: {rows[0].cause}", _HINT, rows[:TOLD])


def unfit_cause(column: str, kind: str) -> str:
    """Why such a row is not written."""
    return f"column {column!r}: a value that {kind} cannot hold"


@runtime_checkable
class DividedRows(Protocol):
    """Rows that others than this process make, too: who only writes them lets these do it."""

    def __iter__(self) -> Iterator[Rows]:
        """All of them, made here."""

    def write(self, writer: Callable[[Any], None]) -> None:
        """As ``write_each``; ``writer`` is pickled and brings its own connection."""


def write_each(
    view: str, some: Iterable[Rows] | DividedRows, writer: Callable[[Any], None]
) -> None:
    """Give ``writer`` all rows while the next ones are made; a row that is not written is told of
    when all others are."""
    if isinstance(some, DividedRows):
        some.write(writer)
        return
    errors: list[RowsError] = []
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(_WRITERS, "load") as pool:
        for rows in some:
            waiting.append(pool.submit(write, view, rows, writer))
            if len(waiting) > _WRITERS:
                _collect(waiting.popleft(), errors)
        for one in waiting:
            _collect(one, errors)
    raise_together(errors)


def _collect(one: Future[None], errors: list[RowsError]) -> None:
    try:
        one.result()
    except (RowsRefusedError, RowsUnfitError) as error:
        errors.append(error)
