"""Rows that a store does not take, told apart from a store that takes nothing. Pure.

A sink writes what it can of a batch and then raises one of these, so that whoever gave it the batch
can put those rows aside and go on with the others. What is told of a row holds none of its values
but its key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from cdc.errors import SinkError, ViewError
from cdc.lsn import Position, format_lsn
from cdc.plural import plural

TOLD: Final = 1_000
"""So many rows are named at most; the others are refused again with the next attempt."""

UNKNOWN: Final = "keeps a large (TOAST) value that neither the change nor the store holds"
"""Why an UPDATE cannot be written that left a value out."""


class Refused(NamedTuple):
    """A row of ``Sink.apply``; ``id`` is its key as text (``documents.key_text``), None if that is
    null."""

    id: str | None
    position: Position
    cause: str


class RowsRefusedError(SinkError):
    """The store refused some rows for good."""

    def __init__(self, message: str, hint: str = "", rows: Sequence[Refused] = ()) -> None:
        super().__init__(message, hint)
        self.rows = tuple(rows)


class RowsUnfitError(ViewError):
    """Some rows cannot be written: no key, or a value that nobody has."""

    def __init__(self, message: str, hint: str = "", rows: Sequence[Refused] = ()) -> None:
        super().__init__(message, hint)
        self.rows = tuple(rows)


RowsError: TypeAlias = RowsRefusedError | RowsUnfitError


def raise_together(errors: Sequence[RowsError]) -> None:
    """Raise the first, with the rows of all; nothing without any."""
    if errors:
        first = errors[0]
        rows = dict.fromkeys(row for error in errors for row in error.rows)
        raise type(first)(first.message, first.hint, list(rows)[:TOLD])


def refused_rows(where: str, rows: Sequence[Refused], hint: str = "") -> RowsRefusedError:
    """What ``where``, a store and what was written to, does not take. The message tells the first
    row by the hash of its key."""
    first = rows[0]
    why = first.cause.rpartition(" refused it: ")[2]
    digest = hashlib.sha256((first.id or "").encode()).hexdigest()[:12]
    lsn, ordinal = first.position
    return RowsRefusedError(
        f"{where} refused {plural(len(rows), 'row')}, the first (SHA-256 of its key {digest},"
        f" at {format_lsn(lsn)}/{ordinal}): {why}",
        hint,
        rows[:TOLD],
    )


def unkeyed(view: str, positions: Iterable[Position]) -> RowsUnfitError:
    """Rows that nothing identifies."""
    rows = [Refused(None, position, "its key in the view is null") for position in positions]
    message, hint = f"view {view}: a row's key is null", "choose key columns that cannot be null"
    return RowsUnfitError(message, hint, rows[:TOLD])


def unknown_values(view: str, of: Sequence[tuple[str, Position]], count: int) -> RowsUnfitError:
    """``count`` rows that keep large values which the store never had, or has no longer; the first
    of them by key and position."""
    return RowsUnfitError(
        f"view {view}: {plural(count, 'changed row has', 'changed rows have')} an unchanged large "
        "(TOAST) value that the store does not hold",
        "rebuild the view; to prevent this, set REPLICA IDENTITY FULL on its table",
        [Refused(id_, position, UNKNOWN) for id_, position in of[:TOLD]],
    )


def packed_rows(rows: Sequence[Refused]) -> str:
    """For the way from an executor to the driver."""
    return json.dumps([[row.id, *row.position, row.cause] for row in rows])


def unpacked_rows(text: str) -> list[Refused]:
    """The inverse of ``packed_rows``."""
    return [
        Refused(id_, Position(lsn, ordinal), cause) for id_, lsn, ordinal, cause in json.loads(text)
    ]
