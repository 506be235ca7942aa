"""Which rows of a table can matter, known from a few rows that are at hand. Pure.

A query over mirrors begins with little: the changed rows, or the touched keys. Equalities carry
their values from occurrence to occurrence, so that each mirror is read where they occur and
nowhere else, and the cost grows with the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from views.clauses import Clause
from views.joins import Join, equalities, holding, interchangeable, type_of
from views.shapes import plain, unwrapped
from views.tables import TableVersion
from views.terms import ColumnRef
from views.types import PgType

Fixed: TypeAlias = tuple[str, int | str | date]
"""A column, and the one value of it that matters."""


class Narrowing(NamedTuple):
    """Rows of ``alias`` matter only where ``pairs`` of (its column, a column of ``by``) agree.

    ``by`` is a relation that is at hand, or an occurrence that was narrowed before. Values that
    are NULL agree with nothing. And they matter only where the columns of ``fixed`` have the values
    named there.
    """

    alias: str
    by: str
    pairs: tuple[tuple[str, str], ...]
    fixed: tuple[Fixed, ...] = ()


def links(
    joins: Sequence[Join],
    there: frozenset[str],
    where: Iterable[Clause],
    tables: Mapping[str, TableVersion],
) -> list[tuple[ColumnRef, ColumnRef]]:
    """Pairs of columns: known values of the first limit the rows of the second's table.

    Where a row is there in every result that is wanted (``there``), its equalities hold in both
    directions. A LEFT JOIN's other rows are limited by what they are looked up with, but do not
    limit it: without a match the row before it stays.
    """
    found = []
    for equal in equalities([*holding(joins, there), *where], tables):
        if equal.twin is not None:
            found.append((equal.twin, equal.column))
    for join in joins:
        if join.alias in there:
            continue
        for equal in equalities(join.on, tables):
            if equal.column.alias == join.alias and equal.twin is not None:
                found.append((equal.twin, equal.column))
    return [
        (one, other)
        for one, other in found
        if one.alias != other.alias
        and interchangeable(type_of(one, tables), type_of(other, tables))
    ]


def constants(
    joins: Sequence[Join],
    there: frozenset[str],
    where: Iterable[Clause],
    tables: Mapping[str, TableVersion],
) -> dict[str, tuple[Fixed, ...]]:
    """By occurrence: columns that conditions give one value in each of its rows that matters.

    A condition in ON on the table that it joins is one for all rows of that table, also where the
    join is a LEFT one: without it they match nothing.
    """
    own = [part for join in joins for part in join.on if part.aliases == {join.alias}]
    found: dict[str, dict[str, int | str | date]] = {}
    for part in (*where, *holding(joins, there), *own):
        if not isinstance(part.node, exp.EQ):
            continue
        sides = part.node.this, part.node.expression
        for column, other in zip(map(plain, sides), sides[::-1], strict=True):
            if column is None:
                continue
            value = _constant(other, type_of(column, tables))
            if value is not None:
                found.setdefault(column.alias, {}).setdefault(column.column, value)
    return {alias: tuple(sorted(of.items())) for alias, of in found.items()}


def _constant(node: exp.Expr, kind: PgType) -> int | str | date | None:
    """What a literal is as a value of a column's type, where that is beyond doubt."""
    node = unwrapped(node)
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if kind.name in _WIDTHS:
        number = int(text) if text.isascii() and text.isdigit() else None
        return number if number is not None and number < 1 << _WIDTHS[kind.name] else None
    if kind.name == "date":
        with suppress(ValueError):  # no such day: the source says so
            return date.fromisoformat(text)
        return None
    return text if kind.name in _TEXTS else None


_WIDTHS = {"int2": 15, "int4": 31, "int8": 63}
_TEXTS = ("text", "varchar")
"""Equal if written alike; a uuid is written in many ways, and a name is cut off."""


def narrowed(
    names: Sequence[str],
    roots: Mapping[ColumnRef, tuple[str, str]],
    linked: Sequence[tuple[ColumnRef, ColumnRef]],
    fixed: Mapping[str, tuple[Fixed, ...]],
) -> tuple[Narrowing, ...]:
    """The order in which occurrences are narrowed, and by what.

    ``names`` are those to narrow, ``roots`` the columns whose values are at hand, each with the
    relation and its column that has them, ``fixed`` what ``constants`` gives. What cannot be
    narrowed is not named in the result.
    """
    reached = dict(roots)
    while True:
        step = {other: reached[one] for one, other in linked if one in reached}
        more = {column: by for column, by in step.items() if column not in reached}
        if not more:
            break
        reached |= more
    found: dict[str, Narrowing] = {}
    for name in names:
        known = [(c.column, by) for c, by in reached.items() if c.alias == name]
        if known:
            source = known[0][1][0]
            pairs = tuple(sorted((column, by[1]) for column, by in known if by[0] == source))
            found[name] = Narrowing(name, source, pairs)
    steps = _through(names, found, linked)
    return tuple(step._replace(fixed=fixed.get(step.alias, ())) for step in steps)


def _through(
    names: Sequence[str],
    found: dict[str, Narrowing],
    linked: Sequence[tuple[ColumnRef, ColumnRef]],
) -> tuple[Narrowing, ...]:
    """Narrow what is left by occurrences that are narrowed already."""
    while True:
        for name in names:
            if name in found:
                continue
            sources = [one.alias for one, two in linked if two.alias == name]
            by = next((source for source in sources if source in found), None)
            if by is not None:
                pairs = {
                    (two.column, one.column)
                    for one, two in linked
                    if two.alias == name and one.alias == by
                }
                found[name] = Narrowing(name, by, tuple(sorted(pairs)))
                break
        else:
            return tuple(found.values())
