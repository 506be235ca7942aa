"""How a subquery is tied to the query around it: its correlation, and what IN compares. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.maintain.free import own_expressions
from views.maintain.not_null import NotNull
from views.maintain.occurrences import Step
from views.maintain.passing import passes
from views.maintain.paths import Level, NoWayError, certain
from views.maintain.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Statement,
    reads,
    subquery_name,
)


def opened(
    statement: Statement, block: Block, steps: tuple[Step, ...]
) -> tuple[Block, tuple[Step, ...], list[Level]]:
    """Down to the block in which the changed source stands: it, the steps from it on, and a level
    for each FROM that is passed, the block's own not among them."""
    levels: list[Level] = []
    while True:
        step = steps[0]
        query: Query | None
        compared: list[exp.Expr] = []
        if step.kind == "subquery":
            if step.clause in ("on", "limit", "call"):
                raise NoWayError(
                    "a subquery in ON of an outer join, in LIMIT or in FROM's functions"
                )
            query, steps = _side(statement.subqueries[step.name], steps[1:])
            compared = _compared(statement, block, step.name, query)
        else:
            source = block.sources[step.name]
            if not source.lateral or source.query is None:
                return block, steps, levels
            query, steps = _side(source.query, steps[1:])
        block = query
        levels.append(Level(block.tree, block.sources, [*block.where, *compared]))


def _side(query: Query, steps: tuple[Step, ...]) -> tuple[Block, tuple[Step, ...]]:
    while isinstance(query, SetOperation):
        query = query.left if steps[0].name == "left" else query.right
        steps = steps[1:]
    if isinstance(query, Recursion):
        raise NoWayError("a recursive query may reach any row from a changed one")
    return query, steps


def _compared(statement: Statement, block: Block, name: str, query: Block) -> list[exp.Expr]:
    """``x IN (SELECT y …)`` as x = y, where y is computed from one row of the subquery."""
    made: list[exp.Expr] = []
    for node in own_expressions(block):
        for part in node.find_all(exp.In, exp.EQ, exp.NEQ):
            left = _left_of(part, name)
            if left is None:
                continue
            columns = left.expressions if isinstance(left, exp.Tuple) else [left]
            if not _asked_for_true(block, part):
                _check_values(statement, block, columns, query)
            for one, output in zip(columns, query.outputs, strict=False):
                if passes(query, output.node):
                    made.append(exp.EQ(this=one.copy(), expression=output.node.copy()))
    return made


def _asked_for_true(block: Block, node: exp.Expr) -> bool:
    """Whether a comparison only matters where it is true, so that false and NULL are the same."""
    while isinstance(node.parent, exp.And | exp.Or | exp.Paren):
        node = node.parent
    return any(node is part for part in [*block.where, *certain(block.tree)])


def _check_values(
    statement: Statement, block: Block, columns: list[exp.Expr], query: Block
) -> None:
    """With NULL on either side NOT IN depends on whether the subquery has rows at all."""
    proof = NotNull(statement)
    inner = all(proof.column(query, place) for place in range(len(query.outputs)))
    if not inner or not all(proof.node(block, node) for node in columns):
        raise NoWayError("NULL in what NOT IN compares lets one row change the answer for all")


def _left_of(part: exp.Expr, name: str) -> exp.Expr | None:
    """What is compared with the values of the subquery, by = or <>."""
    inside = part.args.get("query") if isinstance(part, exp.In) else part.expression
    if isinstance(inside, exp.Any | exp.All):
        inside = inside.this
    elif not isinstance(part, exp.In):
        return None
    if isinstance(inside, exp.Subquery | exp.Paren):
        inside = inside.this
    if isinstance(inside, exp.Select) and subquery_name(inside) == name:
        return part.this.unnest() if isinstance(part.this, exp.Paren) else part.this
    return None


def linked(statement: Statement, block: Block, steps: tuple[Step, ...]) -> set[tuple[str, str]]:
    """The columns of a block by which a LATERAL subquery in it is tied to its rows."""
    _, _, levels = opened(statement, block, steps)
    own = set(block.sources) - {steps[0].name}
    found: set[tuple[str, str]] = set()
    for level in levels:
        for node in [*level.where, *certain(level.tree)]:
            if reads(node) & own:
                found |= {
                    (part.table, part.name)
                    for part in node.find_all(exp.Column)
                    if part.table in own
                }
    return found
