"""Joins by equality: which columns are equal where, and whose rows are there for certain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from views.parse.expression_parts import columns, conjuncts, plain, quantified, shape, unwrapped
from views.parse.syntax_errors import place
from views.spark.clauses import Clause, condition_clause, row_scope
from views.spark.expressions.terms import ColumnRef, Scope
from views.table_versions import TableVersion
from views.types import FLOATS, INTEGERS, STRINGS, PgType


class Equality(NamedTuple):
    """``column = something`` computed from ``source``; ``twin`` if that is a column as well."""

    column: ColumnRef
    source: frozenset[ColumnRef]
    twin: ColumnRef | None


@dataclass(frozen=True, slots=True)
class Join:
    """How an occurrence comes to those before it. The first of FROM has no ``on``."""

    alias: str
    left: bool
    on: tuple[Clause, ...]

    @property
    def beside(self) -> frozenset[str]:
        """The occurrences that ON reads besides this one."""
        return frozenset(name for part in self.on for name in part.aliases) - {self.alias}


def joined(statement: exp.Select, names: Sequence[str], scope: Scope) -> tuple[Join, ...]:
    """The joins of a qualified statement, in their order, each with at least one equality."""
    found = [Join(names[0], False, ())]
    for node, alias in zip(statement.args.get("joins") or [], names[1:], strict=True):
        on = tuple(condition_clause(part, scope) for part in conjuncts(node.args["on"]))
        join = Join(alias, str(node.side or "").upper() == "LEFT", on)
        if not any(_links(part, alias) for part in on):
            reason = f"ON has no equality between {alias} and a table before it"
            hint = "write ON a.x = b.y: other conditions may stand beside it"
            scope.refuse(node.args["on"] if place(node.args["on"]) else node, reason, hint)
        found.append(join)
    return tuple(found)


def _links(part: Clause, alias: str) -> bool:
    """Whether it is an equality of something of ``alias`` and something of others."""
    if not isinstance(part.node, exp.EQ) or quantified(part.node):
        return False
    sides = [
        {column.alias for column in columns(side)}
        for side in (part.node.this, part.node.expression)
    ]
    return any(
        one == {alias} and other and alias not in other for one, other in (sides, sides[::-1])
    )


def on_renamed(
    view: str, join: Join, alias: str, tables: Mapping[str, TableVersion]
) -> tuple[Clause, ...]:
    """ON of a join, with its table called ``alias``."""
    scope = row_scope(view, {**tables, alias: tables[join.alias]})
    parts = []
    for part in join.on:
        node = part.node.copy()
        for column in node.find_all(exp.Column):
            if column.table == join.alias:
                column.set("table", exp.to_identifier(alias, quoted=True))
        parts.append(condition_clause(node, scope))
    return tuple(parts)


def equalities(clauses: Iterable[Clause], tables: Mapping[str, TableVersion]) -> Iterator[Equality]:
    """What conditions that hold say of columns, each equality in both directions.

    Left out are those where equal is not the same: between floats, and with them.
    """
    for part in clauses:
        if not isinstance(part.node, exp.EQ) or quantified(part.node):
            continue
        for one, other in (
            (part.node.this, part.node.expression),
            (part.node.expression, part.node.this),
        ):
            column = plain(one)
            if column is None or column in columns(other):
                continue
            if not any(_is_float(side, tables) for side in (one, other)):
                yield Equality(column, columns(other), plain(other))


def _is_float(node: exp.Expr, tables: Mapping[str, TableVersion]) -> bool:
    """Whether it is a float, or reads one."""
    if any(type_of(column, tables).name in FLOATS for column in columns(node)):
        return True
    return row_scope("", tables).compile(node).type.name in FLOATS


def type_of(column: ColumnRef, tables: Mapping[str, TableVersion]) -> PgType:
    """The type of a column that is known to be there."""
    found = tables[column.alias].column(column.column)
    assert found is not None
    return found.type


def interchangeable(one: PgType, other: PgType) -> bool:
    """Whether equal values of the two are the same value, written alike up to an int's width."""
    if one.name in (*FLOATS, "bpchar") or (one.name == "numeric" and not one.exact):
        return False
    if one == other:
        return True
    return any(one.name in kinds and other.name in kinds for kinds in (INTEGERS, STRINGS))


def rejects_null(part: Clause) -> tuple[frozenset[ColumnRef], str | None]:
    """The columns that cannot be NULL where the condition holds, and the shape that cannot."""
    node = part.node
    if quantified(node):  # of an empty array it is true or false whatever is asked
        return frozenset(), None
    if isinstance(node, exp.Is):
        if isinstance(node.expression, exp.Null) and node.args.get("negate"):
            column = plain(node.this)
            return frozenset([column] if column else []), shape(node.this)
        return frozenset(), None
    if isinstance(node, exp.Not):
        inner = unwrapped(node.this)
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            column = plain(inner.this)
            return frozenset([column] if column else []), shape(inner.this)
        return frozenset(), None
    if isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        sides = (plain(node.this), plain(node.expression))
        return frozenset(side for side in sides if side is not None), None
    if isinstance(node, exp.In | exp.Between | exp.Like | exp.Column):
        column = plain(node if isinstance(node, exp.Column) else node.this)
        return frozenset([column] if column else []), None
    return frozenset(), None


def present(
    joins: Sequence[Join], where: Iterable[Clause] = (), certain: Iterable[str] = ()
) -> frozenset[str]:
    """The occurrences that have a row, not NULLs, in every result.

    ``certain`` are known to have one; ``where`` holds in every result.
    """
    found = {join.alias for join in joins if not join.left} | set(certain)
    holding = list(where)
    while True:
        parts = [*holding, *(part for join in joins if join.alias in found for part in join.on)]
        more = {column.alias for part in parts for column in rejects_null(part)[0]} - found
        if not more:
            return frozenset(found)
        found |= more


def holding(joins: Iterable[Join], there: Iterable[str]) -> list[Clause]:
    """The conditions of ON that hold in every result where these occurrences have a row."""
    aliases = set(there)
    return [part for join in joins if join.alias in aliases for part in join.on]
