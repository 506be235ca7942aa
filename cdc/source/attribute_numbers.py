"""Which columns of ``pg_attribute`` those of a Relation message are. Pure.

A message has names and types in the order of their attnums, and no attnums; the catalog has these,
and may be ahead. An attnum is given once: a column that was there before the message and still is
was there in between, one that is gone does not come back, and new ones have higher numbers. So what
was known before and what the catalog says leave few ways to number the columns, mostly one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.source.catalog import TableFacts

_Way: TypeAlias = "tuple[()] | tuple[int, _Way]"


class Numbered(NamedTuple):
    """A column as a version had it whose attnums are certain."""

    attnum: int
    name: str
    type_oid: int


class Before(NamedTuple):
    """The columns of a table at an earlier position, and the highest attnum that is known to have
    been given until then: up to there no other column ever comes."""

    columns: tuple[Numbered, ...]
    highest: int


class _Place(NamedTuple):
    """A number that a column may have. ``ends``: it came since and is still there, so that without
    it there is none behind. ``names`` and ``types`` are what it was called and of which type before
    and after, None for one of which nothing is known."""

    attnum: int
    needed: bool
    ends: bool
    names: frozenset[str] | None
    types: frozenset[int] | None


def attnums(
    message: RelationMessage, facts: TableFacts, before: Before | None = None
) -> Sequence[int | None]:
    """The attnum of each column, all None where they are not certain.

    ``before`` is the table at an earlier position, None if nothing is known of it. As many columns
    as the table ever had are all of them. Else, in this order: the only way to number them at all;
    the only one in which each is called, and of the type, as before or as now; those that the
    catalog begins with, if it shows the same by name, type and typmod.
    """
    count = len(message.columns)
    if count == facts.highest:
        return range(1, count + 1)
    if before and (found := _followed(message.columns, facts, before)):
        return found
    first = facts.columns[:count]
    sent = [(column.name, column.type_oid, column.typmod) for column in message.columns]
    if sent == [column[:3] for column in first]:
        return [attnum for *_, attnum in first]
    return [None] * count


def _followed(
    columns: Sequence[RelationColumn], facts: TableFacts, before: Before
) -> list[int] | None:
    """The only way to number the columns, or None."""
    places = list(_places(facts, before))
    named = [place for place in places if place.names is not None]
    is_gone = facts.highest < before.highest  # and nobody knows what numbers it came to
    is_partial = len(facts.nullable) > len(facts.columns)
    if not (is_gone or is_partial):
        ways = _ways(columns, [place._replace(names=None, types=None) for place in places])
        if len(ways) == 1:
            found = list(_unfolded(ways[0]))
            return None if _contradicted(columns, found, named) else found
    ways = _ways(columns, named)
    return list(_unfolded(ways[0])) if len(ways) == 1 else None


def _contradicted(
    columns: Sequence[RelationColumn], found: Sequence[int], named: Sequence[_Place]
) -> bool:
    """Whether a column has the name that another number is known by, and not its own."""
    by_name: dict[str, set[int]] = {}
    for place in named:
        for name in place.names or ():
            by_name.setdefault(name, set()).add(place.attnum)
    known = (by_name.get(column.name, ()) for column in columns)
    return any(at and one not in at for at, one in zip(known, found, strict=True))


def _places(facts: TableFacts, before: Before) -> Iterator[_Place]:
    """All numbers that a column may have, in order."""
    was = {column.attnum: (column.name, column.type_oid) for column in before.columns}
    now = {attnum: (name, type_oid) for name, type_oid, _, attnum in facts.columns}
    newest = before.highest
    for attnum in range(1, max(facts.highest, newest) + 1):
        said = [found[attnum] for found in (was, now) if attnum in found]
        if attnum <= newest and not said:
            continue  # it was gone before
        names, types = _both(said)
        needed = attnum in was and attnum in now
        yield _Place(attnum, needed, attnum > newest and attnum in now, names, types)


def _both(
    said: Iterable[tuple[str, int]],
) -> tuple[frozenset[str] | None, frozenset[int] | None]:
    pairs = list(said)
    if not pairs:
        return None, None
    return frozenset(name for name, _ in pairs), frozenset(type_oid for _, type_oid in pairs)


def _ways(columns: Sequence[RelationColumn], places: Sequence[_Place]) -> list[_Way]:
    """Ways to give each column one of the places, in order: two of them if there are more."""
    behind: Mapping[int, list[_Way]] = {len(columns): [()]}
    for place in reversed(places):
        here: dict[int, list[_Way]] = {}
        for i in range(max(min(behind, default=0) - 1, 0), max(behind, default=-1) + 1):
            found: list[_Way] = []
            if i < len(columns) and _fits(columns[i], place):
                found += [(place.attnum, way) for way in behind.get(i + 1, ())]
            if not place.needed and (not place.ends or i == len(columns)):
                found += behind.get(i, ())
            if found:
                here[i] = found[:2]
        behind = here
    return behind.get(0, [])


def _fits(column: RelationColumn, place: _Place) -> bool:
    named = place.names is None or column.name in place.names
    return named and (place.types is None or column.type_oid in place.types)


def _unfolded(way: _Way) -> Iterator[int]:
    while way:
        attnum, way = way
        yield attnum
