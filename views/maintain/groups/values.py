"""What a group keeps of its aggregates, and the view's columns made of it. Pure.

An aggregate that can be followed by the change is made of counts and sums of its argument. The
expressions of a view that shows some are written over these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from views.function_names import AGGREGATES
from views.maintain.touched.pushdown_columns import of_rows
from views.maintain.tree import functions
from views.maintain.tree.parser import text
from views.maintain.tree.render import quoted

GROUP: Final = "__grouped"
"""What a row of kept sums is called in the view's expressions."""
_MADE_OF: Final[Mapping[str, str]] = {
    "count": "count",
    "sum": "sum",
    "avg": "sum",
    "bool_and": "truth",
    "bool_or": "truth",
    "every": "truth",
}
_EXTREMES: Final = ("min", "max")


class NotKeptError(Exception):
    """The groups cannot be kept by the change; the argument says why."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What is aggregated, a column of the body. ``kinds`` are the numbers that are kept of it:
    ``count`` of its values, ``sum`` with their count, ``truth``: how many are true."""

    name: str
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Value:
    """An aggregate: ``function`` of an argument, of which ``count`` may have none: all rows."""

    name: str
    function: str
    argument: str


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or the greatest value of a column in a group, which an index finds."""

    name: str
    function: str
    column: exp.Column
    condition: exp.Expr | None


@dataclass(slots=True)
class GroupValues:
    """Collects the aggregates of a block while its expressions are written over kept sums.

    ``named`` are the expressions that the block groups by, and what the kept columns are called.
    """

    named: Sequence[tuple[str, exp.Expr]]
    arguments: dict[str, tuple[exp.Expr, set[str]]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    extremes: dict[str, Extreme] = field(default_factory=dict)

    def over(self, node: exp.Expr) -> str:
        """An expression of the view, as SQL over a row of ``GROUP``. Raises ``NotKeptError``."""
        made = node.copy().transform(self._made)
        for part in made.find_all(exp.Column):
            if part.table != GROUP:
                raise NotKeptError(f"{text(part)} is no column of the group")
        if made.find(exp.Select, exp.Window) is not None:
            raise NotKeptError("a subquery or a window over the groups")
        return text(made)

    def _made(self, node: exp.Expr) -> exp.Expr:
        for name, grouped in self.named:
            if node == grouped:
                return _column(name)
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, node.expression.this)
        if isinstance(node, exp.WithinGroup | exp.JSONObjectAgg):
            raise NotKeptError("an aggregate that has to see all of its rows")
        if functions.name(node) in AGGREGATES:
            return self._aggregate(node, None)
        return node

    def _aggregate(self, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        name = functions.name(node)
        arguments = node.expressions
        if len(arguments) != 1 or (name not in _MADE_OF and name not in _EXTREMES):
            raise NotKeptError(f"{name or 'an aggregate'} has to see all rows of its group")
        argument = arguments[0]
        if isinstance(argument, exp.Distinct | exp.Order | exp.Ordered):
            raise NotKeptError(f"{name} of values that are told apart or ordered")
        for part in (argument, condition):
            if part is not None and not of_rows(part):
                raise NotKeptError(f"{name} of what is not in a row")
        if name in _EXTREMES:
            return self._extreme(name, argument, condition)
        return self._value(name, argument, condition)

    def _extreme(self, name: str, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        if not isinstance(argument, exp.Column) or isinstance(argument.this, exp.Star):
            raise NotKeptError(f"{name} of an expression, of which there is no index")
        told = f"{name} {text(argument)} {text(condition) if condition is not None else ''}"
        called = f"x{len(self.extremes)}"
        found = self.extremes.setdefault(told, Extreme(called, name, argument, condition))
        return _column(found.name)

    def _value(self, name: str, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        everything = isinstance(argument, exp.Star)
        kept = "" if everything and condition is None else self._argument(name, argument, condition)
        called = f"v{len(self.values)}"
        found = self.values.setdefault(f"{name} {kept}", Value(called, name, kept))
        return _column(found.name)

    def _argument(self, name: str, argument: exp.Expr, condition: exp.Expr | None) -> str:
        if isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
            raise NotKeptError(f"{name} of a whole row")
        node: exp.Expr = exp.true() if isinstance(argument, exp.Star) else argument
        if condition is not None:
            node = exp.Case(ifs=[exp.If(this=condition.copy(), true=node.copy())])
        told = text(node)
        if told not in self.arguments:
            self.arguments[told] = (node, set())
        self.arguments[told][1].add(_MADE_OF[name])
        return f"a{list(self.arguments).index(told)}"

    def body(self) -> list[tuple[str, exp.Expr]]:
        """The arguments as columns of the body."""
        return [(f"a{at}", node) for at, (node, _) in enumerate(self.arguments.values())]

    def kept(self) -> tuple[Argument, ...]:
        """What is kept of each."""
        return tuple(
            Argument(f"a{at}", frozenset(kinds))
            for at, (_, kinds) in enumerate(self.arguments.values())
        )


def _column(name: str) -> exp.Column:
    return exp.column(name, GROUP, quoted=True)


def aliased(columns: Sequence[tuple[str, str]]) -> str:
    """A select list."""
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns)
