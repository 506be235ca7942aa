"""GROUPING SETS, ROLLUP and CUBE as the single sets that they are short for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from views.maintain.tree import functions
from views.maintain.tree.origin import of_node
from views.maintain.tree.parser import Verbatim
from views.maintain.tree.tree import Block

Set = list[exp.Expr]


class OneSet(NamedTuple):
    """A block as one of its sets groups it, and expressions over it."""

    block: Block
    wanted: list[tuple[str, exp.Expr]]


def is_set(node: exp.Expr) -> bool:
    """Whether an item of GROUP BY stands for several sets."""
    return isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)


def members(node: exp.Expr) -> list[exp.Expr]:
    """The expressions of a list in parentheses, or the one expression."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]


def expanded(items: Sequence[exp.Expr]) -> list[Set]:
    """All sets of a GROUP BY."""
    choices = [_of_item(item) for item in items]
    return [[part for chosen in one for part in chosen] for one in product(*choices)]


def _of_item(item: exp.Expr) -> list[Set]:
    if isinstance(item, exp.GroupingSets):
        return [one for part in item.expressions for one in _of_item(part)]
    if not isinstance(item, exp.Rollup | exp.Cube):
        return [members(item)]
    parts = [members(part) for part in item.expressions]
    if isinstance(item, exp.Rollup):
        chosen: list[Sequence[Set]] = [parts[:count] for count in range(len(parts) + 1)]
    else:
        counts = range(len(parts) + 1)
        chosen = [one for count in counts for one in combinations(parts, count)]
    return [[node for part in one for node in part] for one in chosen]


def sets_of(block: Block, wanted: Sequence[tuple[str, exp.Expr]]) -> list[OneSet]:
    """The block once for each set: what the set lacks is NULL, and grouping() a number."""
    assert block.sets is not None
    assert block.group is not None
    found = []
    for chosen in expanded(block.sets.expressions):
        missing = [part for part in block.group if part not in chosen]
        nodes = [(name, _in_set(block, node, missing)) for name, node in wanted]
        found.append(OneSet(replace(block, sets=None, group=chosen), nodes))
    return found


def _in_set(block: Block, node: exp.Expr, missing: Set) -> exp.Expr:
    def made(part: exp.Expr) -> exp.Expr:
        if functions.name(part) == "grouping":
            bits = "".join("1" if item in missing else "0" for item in part.expressions)
            return exp.Literal.number(int(bits, 2))
        if part in missing:
            return _null(block, part)
        return part

    return node.copy().transform(made)


def _null(block: Block, node: exp.Expr) -> exp.Expr:
    column = of_node(block.sources, node)
    if column is None:
        return exp.Null()
    return sqlglot.parse_one(f"CAST(NULL AS {column.type})", read=Verbatim)
