"""Derived tables that only filter and compute: their own tables stand in FROM in their place. Pure.

PostgreSQL does the same by itself, which changes no answer: the rows of such a table are those of
its FROM, one for one. A condition of one that a row may lack moves into the ON of its join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from views.maintain.touched.pushdown_columns import has_subquery, of_rows
from views.maintain.tree.correlated_sources import own_expressions
from views.maintain.tree.from_clause import outer_sides
from views.maintain.tree.render import constant
from views.maintain.tree.tree import Block, Joined, Leaf, Output, Source, Tree, aliases, reads

Shown = Mapping[str, Mapping[str, exp.Expr]]
"""What the columns of a derived table are, by its alias and their names."""


def without_derived_tables(block: Block) -> Block:
    """A block with as few derived tables in FROM as can be."""
    if block.sets is not None or block.windows or any(map(has_subquery, own_expressions(block))):
        return block
    for alias, source in block.sources.items():
        inner = source.query
        if not isinstance(inner, Block) or source.lateral or inner.tree is None:
            continue
        inner = without_derived_tables(inner)
        if _is_plain(block, alias, inner) and (made := _without(block, alias, inner)) is not None:
            return without_derived_tables(made)
    return block


def _is_plain(block: Block, alias: str, inner: Block) -> bool:
    """Whether the columns mean the same where they are read."""
    nodes = [output.node for output in inner.outputs]
    if not inner.plain or not all(of_rows(node) and not constant(node) for node in nodes):
        return False
    whole = (
        isinstance(part.this, exp.Star) and part.table == alias
        for node in own_expressions(block)
        for part in node.find_all(exp.Column)
    )
    is_column = all(isinstance(node, exp.Column) for node in nodes)
    return not any(whole) and (is_column or alias not in outer_sides(block.tree))


def _without(block: Block, alias: str, inner: Block) -> Block | None:
    """A block with the tables of a derived one in its place; None where its condition finds none.
    A row that lacks it lacks its tables, too, if its columns are theirs."""
    assert block.tree is not None, "it reads a derived table"
    assert inner.tree is not None, "it has been asked for"
    names = block.sources[alias].columns
    shown = {alias: dict(zip(names, (one.node for one in inner.outputs), strict=True))}
    conditions = [] if alias not in outer_sides(block.tree) else inner.where
    if (tree := _placed(block.tree, alias, inner.tree, conditions)) is None:
        return None
    sources: dict[str, Source] = {}
    for name, source in block.sources.items():
        if name == alias:
            sources |= inner.sources
        else:
            sources[name] = _reading(source, shown)
    where = [_replaced(node, shown) for node in block.where]
    return replace(
        block,
        sources=sources,
        tree=_on(tree, shown),
        where=where if conditions else [*where, *inner.where],
        outputs=[Output(one.name, _replaced(one.node, shown)) for one in block.outputs],
        group=None if block.group is None else [_replaced(one, shown) for one in block.group],
        having=[_replaced(node, shown) for node in block.having],
        distinct_on=[_replaced(node, shown) for node in block.distinct_on],
        order=[_replaced(node, shown) for node in block.order],
    )


def _placed(tree: Tree, alias: str, inner: Tree, conditions: list[exp.Expr]) -> Tree | None:
    """A tree with another one in the place of a leaf; ``conditions`` in the ON of the join that a
    row of it may be missing in, None where there is none that it could be in."""
    if isinstance(tree, Leaf):
        return inner if not conditions else None
    is_left = alias in aliases(tree.left)
    side = tree.left if is_left else tree.right
    found = _placed(side, alias, inner, conditions)
    on = tree.on
    if found is None and isinstance(side, Leaf) and _may_ask(tree, is_left):
        found, on = inner, [*tree.on, *conditions]
    if found is None:
        return None
    left, right = (found, tree.right) if is_left else (tree.left, found)
    return replace(tree, left=left, right=right, on=on)


def _may_ask(join: Joined, of_left: bool) -> bool:
    """Whether a condition on one side's rows may stand in ON."""
    return join.kind == "inner" or (join.kind == "left" and not of_left)


def _on(tree: Tree, shown: Shown) -> Tree:
    if isinstance(tree, Leaf):
        return tree
    on = [_replaced(node, shown) for node in tree.on]
    return replace(tree, left=_on(tree.left, shown), right=_on(tree.right, shown), on=on)


def _reading(source: Source, shown: Shown) -> Source:
    """A function in FROM, which may read the columns."""
    if source.call is None:
        return source
    call = _replaced(source.call, shown)
    return replace(source, call=call, needs=(source.needs - shown.keys()) | reads(call))


def _replaced(node: exp.Expr, shown: Shown) -> exp.Expr:
    def made(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or part.table not in shown:
            return part
        found = shown[part.table][part.name].copy()
        return found if isinstance(found, exp.Column) else exp.Paren(this=found)

    return node.copy().transform(made)
