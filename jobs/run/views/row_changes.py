"""Rows that a store is to hold, and what a view has of its store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from jobs.sinks.row_errors import RowsError
from jobs.state.batch.stream_offsets import Progress


class Change(NamedTuple):
    """A row that the store is to hold: its key, each value as text, and what is shown of it."""

    key: tuple[str, ...]
    digest: str | None
    """None: the row is gone."""
    shown: tuple[Any, ...]
    told: tuple[Any, ...] = ()
    """What its change stream is given."""


class RowStore(Protocol):
    """A view's place in a store."""

    @property
    def shown(self) -> Sequence[str]:
        """What it is given of a row, as SQL over the row ``m``."""

    def write(self, changes: Sequence[Change], progress: Progress) -> None:
        """Write rows under the position of ``progress``. Raises ``RetryableError`` for a store
        that is away, ``RowsError`` for rows that it refuses when it has written the others."""

    def refused(self, error: RowsError, changes: Sequence[Change]) -> dict[tuple[str, ...], str]:
        """The keys that ``error`` names, and why each is refused."""

    def close(self) -> None:
        """Release connections."""


def read_changes(rows: Sequence[Sequence[Any]], key: int, first: int, shown: int) -> list[Change]:
    """What ``dirty_rows_sql`` and ``all_rows_sql`` give, from column ``first`` on: the digest, the
    key, ``shown`` columns for the store, and those for the change stream."""
    behind = first + 1 + key
    told = behind + shown
    return [
        Change(
            tuple(row[first + 1 : behind]), row[first], tuple(row[behind:told]), tuple(row[told:])
        )
        for row in rows
        if row[first + 1] is not None
    ]
