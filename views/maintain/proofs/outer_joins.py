"""Outer joins of a FROM, as proofs ask for them. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.maintain.tree.tree import Joined, Leaf, Tree, aliases, joins


def lookup_join(tree: Tree | None, alias: str) -> Joined | None:
    """The LEFT JOIN that has a source alone at its right side."""
    if not isinstance(tree, Joined):
        return None
    if tree.kind == "left" and isinstance(tree.right, Leaf) and tree.right.alias == alias:
        return tree
    return lookup_join(tree.left, alias) or lookup_join(tree.right, alias)


def is_in_full_join(tree: Tree | None, alias: str) -> bool:
    return any(
        join.kind == "full" and alias in (*aliases(join.left), *aliases(join.right))
        for join in joins(tree)
    )


def is_full_join_by(tree: Tree | None, first: exp.Expr, second: exp.Expr) -> bool:
    if not isinstance(tree, Joined):
        return False
    if tree.kind == "full":
        return any(
            isinstance(node, exp.EQ) and {node.this, node.expression} == {first, second}
            for node in tree.on
        )
    return is_full_join_by(tree.left, first, second) or is_full_join_by(tree.right, first, second)
