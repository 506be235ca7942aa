"""Rows of the source against rows of the view. Pure.

What a round can decide, for a view that has applied everything committed below ``lsn``:

====================  ==================  ====================================================
the source at ``lsn``  the view            then
====================  ==================  ====================================================
has the row           the same            equal
has it or not         newer (>= ``lsn``)  changed since: ``newer``, to be looked at again
has the row           older, not equal    ``different``
has no such row       older               ``extra``
has the row           none                ``missing``, unless it was changed since: ask the log
====================  ==================  ====================================================
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cdc.errors import ViewError
from cdc.lsn import Position
from verification.values.canonical_form import Canonical, digest

_SEEN: Final = b""
"""In place of a digest: the view has the row."""


class Row(NamedTuple):
    """A canonical row; ``key`` is packed, ``values`` are the view's columns in their order.

    ``digits`` are, of the source's rows, the numerics without limits of the key as they are shown:
    a view holds these as text, in which 1.0 is not 1.00.
    """

    key: bytes
    values: tuple[Canonical, ...]
    digits: tuple[str, ...] = ()


class StoredRow(NamedTuple):
    """A row of the view, with the position it is the result of; ``stored_key`` is its key in the
    store's own values, in the order of the view's key."""

    row: Row
    position: Position
    stored_key: tuple[object, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What one pass over the view showed. Keys are packed."""

    view_rows: int = 0
    different: dict[bytes, tuple[Canonical, ...] | None] = field(default_factory=dict)
    """The view's values by key, of the first ``keep`` of them; None of the others."""
    extra: dict[bytes, tuple[object, ...]] = field(default_factory=dict)
    """With the key as it is stored."""
    found: dict[bytes, bytes] = field(default_factory=dict)
    """Digests of the view's different and extra rows."""
    doubled: set[bytes] = field(default_factory=set)
    """Of which the view has several rows: at most one of them is where its key leads to."""
    newer: set[bytes] = field(default_factory=set)
    missing: set[bytes] = field(default_factory=set)


def expected_rows(rows: Iterable[Row], view: str) -> dict[bytes, bytes]:
    """Digests of the source's rows by key. Raises ``ViewError`` when a key is not unique."""
    expected: dict[bytes, bytes] = {}
    count = 0
    for row in rows:
        expected[row.key] = digest(row.values)
        count += 1
    if count != len(expected):
        raise ViewError(
            f"view {view}: its SQL gives {count - len(expected):,} rows in the source that "
            "share a key with another row",
            "declare a key that is unique",
        )
    return expected


def compare(
    expected: dict[bytes, bytes],
    stored: Iterable[StoredRow],
    lsn: int,
    keep: int,
    only: Container[bytes] | None = None,
) -> Outcome:
    """Compare, and spoil ``expected``.

    ``only`` limits the comparison to these keys. Memory beyond ``expected`` grows with the keys
    that were changed during the comparison or differ, and with ``keep`` rows.
    """
    outcome = Outcome()
    for (key, values, _), position, stored_key in stored:
        outcome.view_rows += 1
        if only is not None and key not in only:
            continue
        wanted = expected.get(key)
        if wanted == _SEEN or key in outcome.newer or key in outcome.extra:
            outcome.doubled.add(key)
        if wanted is not None:
            expected[key] = _SEEN
        if position.commit_lsn >= lsn:
            outcome.newer.add(key)
        elif not wanted:
            outcome.extra[key], outcome.found[key] = stored_key, digest(values)
        elif wanted != (held := digest(values)):
            outcome.different[key] = values if len(outcome.different) < keep else None
            outcome.found[key] = held
    outcome.missing = {key for key, wanted in expected.items() if wanted != _SEEN}
    return outcome


def differing_columns(
    names: Iterable[str], source: tuple[Canonical, ...], view: tuple[Canonical, ...]
) -> Iterator[tuple[str, Canonical, Canonical]]:
    """The columns whose canonical values are not the same, with both values."""
    for name, wanted, found in zip(names, source, view, strict=True):
        if digest((wanted,)) != digest((found,)):
            yield name, wanted, found
