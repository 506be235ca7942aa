"""Columns that GROUP BY settles without naming them: those of a table whose key it names. Pure.

PostgreSQL lets them be selected where it sees the table and its key. A mirror is read by a
subquery, so they are named: the groups stay the same.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views.function_names import AGGREGATES
from views.maintain.tree import functions
from views.maintain.tree.correlated_sources import blocks, columns
from views.maintain.tree.tree import Block, Statement

_NOT_COMPARED: Final = ("json", "xml", "point", "line", "lseg", "box", "path", "polygon")
"""Types without an equality, which GROUP BY cannot name."""


def name_dependent_columns(statement: Statement) -> None:
    """Add them to each GROUP BY that has a table's key; what cannot be named there is taken from
    the rows of the group."""
    read: dict[str, dict[str, None]] = {}
    for column in columns(statement.query, statement.subqueries):
        if not isinstance(column.this, exp.Star):
            read.setdefault(column.table, {})[column.name] = None
    for block in blocks(statement.query, statement.subqueries):
        if block.group is not None and block.sets is None:
            found = _dependent(block, block.group, read)
            named = [column for column, is_named in found.items() if is_named]
            block.group = [*block.group, *(exp.column(n, a, quoted=True) for a, n in named)]
            others = {column for column, is_named in found.items() if not is_named}
            if others:
                _take_any(block, others)


def _dependent(
    block: Block, group: list[exp.Expr], read: dict[str, dict[str, None]]
) -> dict[tuple[str, str], bool]:
    """Alias and name of each, and whether it can be named in GROUP BY."""
    named = {(part.table, part.name) for part in group if isinstance(part, exp.Column)}
    found: dict[tuple[str, str], bool] = {}
    for alias, source in block.sources.items():
        if source.table is None or not source.table.key:
            continue
        if any((alias, name) not in named for name in source.table.key):
            continue
        for name in read.get(alias, {}):
            column = source.table.column(name)
            if column is not None and (alias, name) not in named:
                found[alias, name] = column.type not in _NOT_COMPARED
    return found


def _take_any(block: Block, found: set[tuple[str, str]]) -> None:
    """Show any value of a group, which has but one, outside of aggregates."""
    for output in block.outputs:
        output.node = _replaced(output.node, found)
    block.having = [_replaced(node, found) for node in block.having]
    block.order = [_replaced(node, found) for node in block.order]


def _replaced(node: exp.Expr, found: set[tuple[str, str]]) -> exp.Expr:
    def any_value(part: exp.Expr) -> exp.Expr:
        is_one = isinstance(part, exp.Column) and (part.table, part.name) in found
        if not is_one or _is_aggregated(part):
            return part
        return exp.Anonymous(this="any_value", expressions=[part.copy()])

    return node.copy().transform(any_value)


def _is_aggregated(node: exp.Expr) -> bool:
    above = node.parent
    while above is not None:
        if functions.name(above) in AGGREGATES:
            return True
        above = above.parent
    return False
