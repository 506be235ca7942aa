"""Which rows of the mirrors a view holds, over kills: attempts, numbered without end.

Every try at a batch takes the next number, and is settled when the store has what it led to. What
unsettled attempts wrote to the mirrors the view may lack; so whoever is next counts that as changed
too. The number is also what tells writes of one view row apart that result from changes up to the
same LSN: a later attempt knows more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdc.lsn import Position
from jobs.state import read_document, write_document


@dataclass(frozen=True, slots=True)
class Attempts:
    """``last`` is the number of the newest attempt, ``settled`` that of the last settled one.

    ``lsn`` is the highest commit LSN of all changes met. ``truncated`` names, by table, the newest
    TRUNCATE met: what is older and comes later is gone.
    """

    last: int = 0
    settled: int = 0
    lsn: int = 0
    truncated: Mapping[str, Position] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Of the rows that the newest attempt writes to the store."""
        return Position(self.lsn, self.last)

    def begun(self, lsn: int, truncated: Mapping[str, Position]) -> Attempts:
        """The next one, of changes up to ``lsn``."""
        newest = dict(self.truncated)
        for table, position in truncated.items():
            newest[table] = max(position, newest.get(table, position))
        return replace(self, last=self.last + 1, lsn=max(self.lsn, lsn), truncated=newest)

    def done(self) -> Attempts:
        """The store has it."""
        return replace(self, settled=self.last)


def read_attempts(directory: Path) -> Attempts:
    """Of the mirrors in a directory; none yet if it is empty."""
    held = read_document(directory / _FILE)
    if held is None:
        return Attempts()
    truncated = {table: Position(*at) for table, at in held["truncated"].items()}
    return Attempts(held["last"], held["settled"], held["lsn"], truncated)


def write_attempts(directory: Path, attempts: Attempts) -> None:
    """Whole or not at all."""
    document: dict[str, Any] = {
        "last": attempts.last,
        "settled": attempts.settled,
        "lsn": attempts.lsn,
        "truncated": {table: list(at) for table, at in attempts.truncated.items()},
    }
    write_document(directory / _FILE, document)


_FILE = "attempts.json"
