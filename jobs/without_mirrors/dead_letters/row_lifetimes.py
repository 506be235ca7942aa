"""Which events of a key its dead letters hold up, where a view takes every event. Pure.

A delete of the row or a TRUNCATE ends a life of it, and nothing behind that needs what was before.
So a letter holds up the events of its own life alone, and is over when that has ended, with all
that it held up. The end itself is applied: it ends what the view has of the row, whatever becomes
of the letters. Were events of two lives to wait together, a TRUNCATE between them, which waits for
no key, would be missing where they are retried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Row

from cdc.events.codes import DELETE
from cdc.lsn import Position
from jobs.without_mirrors.dead_letters.letter import Letter
from jobs.without_mirrors.dead_letters.parked_rows import fate_of, id_of

_FIRST = Position(0, 0)


class Place(NamedTuple):
    """Where an event stands; ``position`` is None of what is none."""

    id: str
    offset: int
    position: Position | None


class Lives(NamedTuple):
    """``waiting`` rows of a batch go behind the letters of their life. That of the ``passed`` ones
    has ended, and of the letters that ``over`` names."""

    waiting: list[Row]
    passed: list[Row]
    over: set[str]


def place_of(one: Letter | Row) -> Place:
    """Of a letter, or of a record as ``dead_letters.parking`` collects them."""
    if isinstance(one, Letter):
        return Place(one.id, one.offset, one.position)
    return Place(id_of(one), one.offset, fate_of(one)[1])


def lives(parked: Sequence[Place], rows: Sequence[Row], truncates: Sequence[Position]) -> Lives:
    """What becomes of a key's ``rows`` in a batch, with the ``truncates`` of its table there, and
    of what is ``parked`` of it, some of which may be among the rows.

    What is no event belongs to the life that it stands in. Of a TRUNCATE, which stands in every
    partition, nobody knows whether that is later: beside such a record it ends nothing.
    """
    ids = {one.id for one in parked}
    rest: list[tuple[Row, Place]] = []
    begun: dict[int, Position] = {}
    for row in rows:
        place = place_of(row)
        if place.position and place.id not in ids and fate_of(row)[0] == DELETE:
            begun[place.offset] = place.position
        else:
            rest.append((row, place))
    known = None not in {place.position for place in (*parked, *(place for _, place in rest))}
    ends = sorted({*begun.values(), *(truncates if known else ())})

    def life(place: Place) -> int:
        at = place.position
        if at is None:
            before = (began for offset, began in begun.items() if offset < place.offset)
            at = max(before, default=_FIRST)
        return bisect_right(ends, at)

    held_up = {life(one) for one in parked}
    found = Lives([], [], {one.id for one in parked if life(one) < len(ends)})
    for row, place in rest:
        if (number := life(place)) in held_up:
            (found.waiting if number == len(ends) else found.passed).append(row)
    return found
