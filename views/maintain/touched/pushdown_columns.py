"""What a restriction can be pushed through: expressions that every stage of a block keeps. Pure.

A group, a partition or the rows that DISTINCT ON compares are made of rows that agree in certain
expressions. What is built of these alone is the same for a row of the result and for each row that
it is made of, so that a restriction by it may be asked before or after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from views.function_names import ROWS
from views.maintain.tree import functions
from views.maintain.tree.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Source,
    subquery_name,
)


def has_subquery(node: exp.Expr) -> bool:
    """Whether a subquery stands in an expression."""
    return any(subquery_name(select) for select in node.find_all(exp.Select))


def of_rows(node: exp.Expr) -> bool:
    """Whether an expression is computed from one row of FROM alone."""
    if has_subquery(node) or node.find(exp.Window) is not None:
        return False
    if any(functions.name(part) in ROWS for part in node.walk()):
        return False
    grouping = any(functions.name(part) == "grouping" for part in node.walk())
    return not grouping and not functions.aggregates(node)


def built_of(node: exp.Expr, parts: Iterable[exp.Expr]) -> bool:
    """Whether an expression reads columns only inside of ``parts``."""
    parts = list(parts)
    if any(node == part for part in parts):
        return True
    if isinstance(node, exp.Column):
        return False
    return all(built_of(part, parts) for part in node.iter_expressions())


def stages(block: Block) -> list[Sequence[exp.Expr]]:
    """What the rows of each stage's groups agree in, for each stage of a block.

    Not of LIMIT, which nothing passes, nor of DISTINCT, where each column does.
    """
    found: list[Sequence[exp.Expr]] = []
    if block.group is not None:
        found.append([] if block.sets is not None else block.group)
    found += [window.args.get("partition_by") or [] for window in block.windows]
    if block.distinct_on:
        found.append(block.distinct_on)
    return found


def passes(block: Block, node: exp.Expr) -> bool:
    """Whether a restriction by an expression of a block may be asked of the rows of its FROM."""
    if block.limit or not of_rows(node):
        return False
    if block.sets is not None:
        return not list(node.find_all(exp.Column))
    return all(built_of(node, stage) for stage in stages(block))


def column_passes(query: Query, position: int) -> bool:
    """The same for a column of a query, down to the rows of each of its blocks."""
    if isinstance(query, Block):
        return passes(query, query.outputs[position].node)
    if isinstance(query, SetOperation):
        both = (query.left, query.right)
        return not query.limit and all(column_passes(side, position) for side in both)
    return position in carried(query) and column_passes(query.anchor, position)


def carried(query: Recursion) -> tuple[int, ...]:
    """The columns that the step of a recursive query passes on unchanged, by position."""
    itself = recursive_source(query)
    if itself is None or not isinstance(query.step, Block):
        return ()
    found = []
    for place, output in enumerate(query.step.outputs):
        node = output.node
        if isinstance(node, exp.Column) and node.table == itself.alias:
            found += [place] if node.name == query.columns[place] else []
    return tuple(found)


def recursive_source(query: Recursion) -> Source | None:
    """Where the step reads what there is already; PostgreSQL lets it do so once."""
    if not isinstance(query.step, Block) or query.step.limit:
        return None
    found = [item for item in query.step.sources.values() if item.recursion == query.name]
    return found[0] if len(found) == 1 else None


def handles(block: Block) -> list[list[exp.Expr]] | None:
    """Prefixes under which all rows of the result may change if one row of FROM does.

    One for each window, or the group if there is none; None if there is no such prefix.
    """
    if block.limit or block.sets is not None:
        return None
    found = stages(block)
    finest: list[Sequence[exp.Expr]] = found
    if block.distinct_on:
        finest = [block.distinct_on]
    elif block.windows:
        finest = [window.args.get("partition_by") or [] for window in block.windows]
    grouped = found[: 1 if block.group is not None else 0]
    coarser = found if block.distinct_on else grouped
    made: list[list[exp.Expr]] = []
    for prefix in finest:
        kept = [
            part
            for part in prefix
            if of_rows(part) and all(built_of(part, stage) for stage in coarser)
        ]
        if not kept:
            return None
        if kept not in made:
            made.append(kept)
    return made
