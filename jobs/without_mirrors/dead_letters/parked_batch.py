"""What becomes of a batch's records beside dead letters: which flow, which wait, which are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row

from cdc.lsn import Position
from jobs.without_mirrors.dead_letters.letter import Letter, Owner
from jobs.without_mirrors.dead_letters.parked_records import without
from jobs.without_mirrors.dead_letters.parked_rows import before_end, id_of
from jobs.without_mirrors.dead_letters.row_lifetimes import lives, place_of


@dataclass(slots=True)
class ParkedBatch:
    """``left`` keys and ``ids`` do not flow, ``ended`` keys flow again. ``over`` are letters: where
    a view takes every event, those of a key need not all be.

    Each view's batches are sorted by one of two rules: ``freed`` where a key waits as a whole,
    ``held_up`` where each life of its row does.
    """

    ids: set[str]
    left: set[Owner] = field(default_factory=set)
    ended: set[Owner] = field(default_factory=set)
    over: set[str] = field(default_factory=set)

    def flowing(self, records: DataFrame, parked: set[Owner]) -> DataFrame:
        """The records without those that wait or are over; ``parked`` keys wait as a whole."""
        return without(records, (parked - self.ended) | self.left, self.ids)

    def freed(
        self,
        key: Owner,
        letters: Sequence[Letter],
        rows: Sequence[Row],
        truncates: Sequence[Position],
    ) -> Sequence[Row]:
        """Those of a parked key's ``rows`` that go behind its letters: all, unless the row is
        removed in this batch. Then these and the letters are over, and the others flow."""
        before = before_end([letter.position for letter in letters], rows, truncates)
        if before is None:
            return rows
        self.ended.add(key)
        self.ids |= {id_of(row) for row in before}
        return before

    def held_up(
        self,
        parked: Sequence[Letter | Row],
        rows: Sequence[Row],
        truncates: Sequence[Position],
    ) -> tuple[list[Row], list[Row]]:
        """Those of a key's ``rows`` that wait, and those that are passed over, with what is
        ``parked`` of it or has to be."""
        places = [place_of(one) for one in parked]
        found = lives(places, [row for row in rows if id_of(row) not in self.ids], truncates)
        self.ids |= {id_of(row) for row in (*found.waiting, *found.passed)}
        self.over -= {place.id for place in places}
        self.over |= found.over
        return found.waiting, found.passed

    def is_over(self, letter: Letter) -> bool:
        return letter.owner in self.ended or letter.id in self.over
