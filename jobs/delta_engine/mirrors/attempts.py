"""Which rows of the mirrors a view holds, over kills: attempts, numbered without end.

Every try at a batch takes the next number, and is settled when the store has what it led to. What
unsettled attempts wrote to the mirrors the view may lack; so whoever is next counts that as changed
too. The number is also what tells writes of one view row apart that result from changes up to the
same LSN: a later attempt knows more.

Settled, an attempt leaves nothing of its records to be done. So where the last settled one ends is
where the mirrors begin, whatever the checkpoint says: an older one makes what is below come again,
and all of that is left out. A mirror need not remember what it deleted to stay as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdc.kafka.broker import Offsets
from cdc.lsn import Position
from jobs.generations.view_state import read_document, write_document


@dataclass(frozen=True, slots=True)
class Attempts:
    """``last`` is the number of the newest attempt, ``settled`` that of the last settled one.

    ``lsn`` is the highest commit LSN of all changes met, or that rows were repaired at.
    ``truncated`` names, by table, the newest TRUNCATE met: what is older and comes later is gone.
    ``offsets`` are where the settled attempts end, by topic and partition. ``forgotten`` names, by
    table, the newest deletion that its mirror does not hold any more: it was written anew without.
    """

    last: int = 0
    settled: int = 0
    lsn: int = 0
    truncated: Mapping[str, Position] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)
    forgotten: Mapping[str, Position] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Of the rows that the newest attempt writes to the store."""
        return Position(self.lsn, self.last)

    def begun(self, lsn: int, truncated: Mapping[str, Position]) -> Attempts:
        """The next one, of changes up to ``lsn``."""
        newest = _newest(self.truncated, truncated)
        return replace(self, last=self.last + 1, lsn=max(self.lsn, lsn), truncated=newest)

    def done(self, end: Offsets) -> Attempts:
        """The store has it, and so everything below ``end``."""
        ends = {topic: dict(of_topic) for topic, of_topic in self.offsets.items()}
        for topic, of_topic in end.items():
            held = ends.setdefault(topic, {})
            for partition, at in of_topic.items():
                held[partition] = max(at, held.get(partition, 0))
        return replace(self, settled=self.last, offsets=ends)

    def forgetting(self, deletions: Mapping[str, Position]) -> Attempts:
        """Mirrors are about to be written anew without deletions up to these."""
        return replace(self, forgotten=_newest(self.forgotten, deletions))


def _newest(held: Mapping[str, Position], more: Mapping[str, Position]) -> dict[str, Position]:
    newest = dict(held)
    for table, position in more.items():
        newest[table] = max(position, newest.get(table, position))
    return newest


def is_begun(directory: Path) -> bool:
    """Whether mirrors were ever kept in a directory."""
    return (directory / _FILE).exists()


def read_attempts(directory: Path) -> Attempts:
    """Of the mirrors in a directory; none yet if it is empty."""
    held = read_document(directory / _FILE)
    if held is None:
        return Attempts()
    offsets = {
        topic: {int(partition): at for partition, at in of_topic.items()}
        for topic, of_topic in held["offsets"].items()
    }
    truncated, forgotten = _positions(held["truncated"]), _positions(held["forgotten"])
    return Attempts(held["last"], held["settled"], held["lsn"], truncated, offsets, forgotten)


def _positions(held: Mapping[str, Any]) -> dict[str, Position]:
    return {table: Position(*at) for table, at in held.items()}


def write_attempts(directory: Path, attempts: Attempts) -> None:
    """Whole or not at all."""
    document: dict[str, Any] = {
        "last": attempts.last,
        "settled": attempts.settled,
        "lsn": attempts.lsn,
        "truncated": {table: list(at) for table, at in attempts.truncated.items()},
        "offsets": attempts.offsets,
        "forgotten": {table: list(at) for table, at in attempts.forgotten.items()},
    }
    write_document(directory / _FILE, document)


_FILE = "attempts.json"
