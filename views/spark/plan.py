"""How a view over mirrors is kept: what a change touches, and what is made anew. Pure.

All changes of one batch count together. For each occurrence of a table in FROM its key query runs
over the state before (with the rows' old images) and over the state after (with the new ones); the
union is the set of touched keys. Their rows are made anew, and a key without a row is deleted.

The key query is the view's SELECT DISTINCT of its key, that occurrence reading the changed rows,
its own LEFT JOIN made INNER, without WHERE, GROUP BY and HAVING: a condition may hide the row that
comes, while the row that goes was let through. Only what concerns nothing but rows that no LEFT
JOIN brings in may stay, and what the occurrence's own ON asks of its rows alone. Joins that do not
help to find the key are left out: what is found too much is made anew to what it was.

A key that reads a LEFT JOIN's side is another one while nothing matches, and the changed rows do
not tell it. Then the rows before the join that match a changed image, old or new, are looked up in
both states, and give the keys they have there (``KeyQuery.beside``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from views.spark.clauses import Clause, clause, row_scope
from views.spark.dialects import SPARK, Dialect
from views.spark.expressions.terms import ColumnRef
from views.spark.keys.joins import (
    Join,
    equalities,
    holding,
    interchangeable,
    on_renamed,
    present,
    type_of,
)
from views.spark.select import from_clause, keys_clause, selecting, where_clause
from views.spark.view import MaintainedView
from views.table_versions import TableVersion
from views.types import FLOATS

CHANGED = "__changed"
"""What the relation of changed rows is called in SQL beside its table."""


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Finds the keys that changed rows of one occurrence touch; to be run for each state.

    ``beside`` says what the changed rows are. If false: the old images with the state before, the
    new images with the state after, in place of the occurrence. If true: the old and the new
    images together with either state, beside the occurrence, whose mirror is read as well.
    """

    occurrence: str
    table: str
    beside: bool
    joins: tuple[Join, ...]
    names: tuple[str, ...]
    keys: tuple[Clause, ...]
    where: tuple[Clause, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The occurrences whose mirrors are read."""
        changed = CHANGED if self.beside else self.occurrence
        return tuple(join.alias for join in self.joins if join.alias != changed)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the changed rows that are the key, if no more is asked. Not floats: there
        equal values are not one and the same."""
        found = tuple(made.column.column for made in self.keys if made.column is not None)
        if self.reads or self.where or len(found) < len(self.keys):
            return None
        return None if any(made.type.name in FLOATS for made in self.keys) else found

    def sql(self, relations: Mapping[str, str], changed: str, dialect: Dialect = SPARK) -> str:
        """The key's columns, distinct and not NULL, under the view's names.

        ``relations`` are what to read for the occurrences of ``reads``, ``changed`` for the changed
        rows: names, or subqueries in parentheses.
        """
        called = CHANGED if self.beside else self.occurrence
        conditions = [f"{dialect.words(made)} IS NOT NULL" for made in self.keys]
        conditions += [dialect.words(part) for part in self.where]
        lines = [
            keys_clause(self.keys, self.names, dialect),
            "FROM " + from_clause(self.joins, dialect, {**relations, called: changed}),
            *where_clause(conditions),
        ]
        return "\n".join(lines)


def recomputation(
    view: MaintainedView, relations: Mapping[str, str], keys: str, dialect: Dialect = SPARK
) -> str:
    """The view's rows of the keys in the relation ``keys``, which holds no NULL, as they are in the
    state after."""
    return selecting(view, dialect, relations, keys)


def whole(view: MaintainedView, relations: Mapping[str, str], dialect: Dialect = SPARK) -> str:
    """All rows of the view."""
    return selecting(view, dialect, relations)


def key_queries(view: MaintainedView) -> tuple[KeyQuery, ...]:
    """One for each occurrence, in the order of FROM."""
    return tuple(_key_query(view, alias) for alias in view.tables)


def _key_query(view: MaintainedView, alias: str) -> KeyQuery:
    if _hidden_while_missing(view, alias):
        return _beside(view, alias)
    keys = tuple(_carried_over(view, alias, made) for made in view.keys)
    joins = _connected(view, alias, {name for made in keys for name in made.aliases})
    return _query(view, alias, joins, keys, alias)


def _query(
    view: MaintainedView,
    alias: str,
    joins: tuple[Join, ...],
    keys: tuple[Clause, ...],
    changed: str,
) -> KeyQuery:
    names = [join.alias for join in joins]
    kept = present(view.body.joins) & set(names)
    where = tuple(part for part in view.body.where if part.aliases and part.aliases <= kept)
    if joins[0].alias == changed:  # its ON is left out, of which what concerns it alone holds
        where += _own(view, changed)
    return KeyQuery(
        alias, view.tables[alias].name, changed == CHANGED, joins, view.key, keys, where
    )


def _own(view: MaintainedView, alias: str) -> tuple[Clause, ...]:
    """What the ON of an occurrence asks of its rows alone: no other row of it matches anything."""
    found = next((join.on for join in view.body.joins if join.alias == alias), ())
    return tuple(part for part in found if part.aliases == {alias})


def _hidden_while_missing(view: MaintainedView, alias: str) -> bool:
    """Whether the key differs between rows that a row of ``alias`` matches and the same without.

    Not where the key is NULL without it: such rows are not kept.
    """
    joins = view.body.joins
    if alias in present(joins):
        return False
    behind = {alias}
    for join in joins:
        if join.beside & behind:
            behind.add(join.alias)
    for made in view.keys:
        if made.column is not None and alias in present(joins, certain=[made.column.alias]):
            return False
    return any(made.aliases & behind for made in view.keys)


def _beside(view: MaintainedView, alias: str) -> KeyQuery:
    needed = {alias, *(name for made in view.keys for name in made.aliases)}
    while (
        more := {name for j in view.body.joins if j.alias in needed for name in j.beside} - needed
    ):
        needed |= more
    joins: list[Join] = []
    for join in view.body.joins:
        if join.alias == alias:
            on = on_renamed(view.name, join, CHANGED, view.tables)
            joins.append(Join(CHANGED, False, on))
        if join.alias in needed:
            joins.append(join)
    return _query(view, alias, tuple(joins), view.keys, CHANGED)


def _carried_over(view: MaintainedView, alias: str, made: Clause) -> Clause:
    """The key's column as one of the changed rows, where they are equal and of one type."""
    start = made.column
    if start is None or start.alias == alias:
        return made
    joins, tables = view.body.joins, view.tables
    holds = holding(joins, present(joins, certain=[alias]))
    equal = [(e.column, e.twin) for e in equalities(holds, tables) if e.twin is not None]
    reached = {start}
    while True:
        more = {two for one, two in equal if one in reached and _same(one, two, tables)} - reached
        if not more:
            break
        reached |= more
    found = sorted(column for column in reached if column.alias == alias)
    if not found:
        return made
    node = exp.column(found[0].column, found[0].alias, quoted=True)
    return clause(node, row_scope(view.name, tables))


def _same(one: ColumnRef, other: ColumnRef, tables: Mapping[str, TableVersion]) -> bool:
    """Whether what is equal there is one and the same value."""
    kinds = type_of(one, tables), type_of(other, tables)
    return kinds[0] == kinds[1] and interchangeable(*kinds)


def _connected(view: MaintainedView, alias: str, needed: set[str]) -> tuple[Join, ...]:
    """The joins that connect the changed rows with what the key reads, and no others.

    The first of them begins FROM. Whatever joins it with others is left out: it only limits.
    """
    found = {alias, *needed}
    while True:
        chain = [join for join in view.body.joins if join.alias in found]
        more = {name for join in chain[1:] for name in join.beside} - found
        if not more:
            break
        found |= more
    first = Join(chain[0].alias, False, ())
    rest = [replace(join, left=False) if join.alias == alias else join for join in chain[1:]]
    return (first, *rest)
