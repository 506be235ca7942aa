"""How a subquery is tied to the query around it: its correlation, and what IN compares. Pure."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from views.maintain.proofs.not_null import NotNull
from views.maintain.touched.occurrences import Step
from views.maintain.touched.paths import Level, NoWayError, certain
from views.maintain.touched.pushdown_columns import passes
from views.maintain.tree.correlated_sources import free, own_expressions
from views.maintain.tree.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Statement,
    reads,
    subquery_name,
)


class NullComparedError(NoWayError):
    """NOT IN compares what may be NULL with the subquery ``name``, which nothing else ties."""

    def __init__(self, name: str) -> None:
        super().__init__("NULL in what NOT IN compares lets one row change the answer for all")
        self.name = name


def opened(
    statement: Statement, block: Block, steps: tuple[Step, ...], gated: Collection[str] = ()
) -> tuple[Block, tuple[Step, ...], list[Level]]:
    """Down to the block in which the changed source stands: it, the steps from it on, and a level
    for each FROM that is passed, the block's own not among them.

    Of the subqueries in ``gated`` it is known that NULL among their values came or went with none.
    """
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
            whole = statement.subqueries[step.name]
            query, steps = _side(whole, steps[1:])
            if not isinstance(whole, SetOperation) or not _limited(whole):
                compared = _compared(statement, block, step.name, query, step.name in gated)
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


def _limited(query: Query) -> bool:
    if not isinstance(query, SetOperation):
        return False
    return bool(query.limit) or _limited(query.left) or _limited(query.right)


def _compared(
    statement: Statement, block: Block, name: str, query: Block, gated: bool
) -> list[exp.Expr]:
    """``x IN (SELECT y …)`` as x = y, where y is computed from one row of the subquery."""
    made: list[exp.Expr] = []
    for node in own_expressions(block):
        for part in node.find_all(exp.In, exp.EQ, exp.NEQ):
            left = _left_of(part, name)
            if left is None:
                continue
            columns = left.expressions if isinstance(left, exp.Tuple) else [left]
            safe = gated or _asked_for_true(block, part)
            if not safe and not _have_values(statement, block, columns, query):
                alone = not free(statement.subqueries[name], statement.subqueries)
                if alone and len(columns) == 1:
                    raise NullComparedError(name)
                continue
            for one, output in zip(columns, query.outputs, strict=False):
                if passes(query, output.node):
                    made.append(exp.EQ(this=one.copy(), expression=output.node.copy()))
    return made


def compared_with(statement: Statement, block: Block) -> list[exp.Expr]:
    """What the subqueries of a block are compared with by IN, for all of them."""
    made: list[exp.Expr] = []
    for node in own_expressions(block):
        for select, query in statement.inside(node):
            if isinstance(query, Block):
                name = subquery_name(select)
                made += _compared(statement, block, name, query, True)
    return made


def _asked_for_true(block: Block, node: exp.Expr) -> bool:
    """Whether a comparison only matters where it is true, so that false and NULL are the same."""
    while isinstance(node.parent, exp.And | exp.Or | exp.Paren):
        node = node.parent
    return any(node is part for part in [*block.where, *certain(block.tree)])


def _have_values(statement: Statement, block: Block, columns: list[exp.Expr], query: Block) -> bool:
    """Whether NULL is on neither side. With it NOT IN depends on more than what is equal."""
    proof = NotNull(statement)
    inner = all(proof.column(query, place) for place in range(len(query.outputs)))
    return inner and all(proof.node(block, node) for node in columns)


def _left_of(part: exp.Expr, name: str) -> exp.Expr | None:
    """What is compared with the values of the subquery, by = or <>."""
    inside = part.args.get("query") if isinstance(part, exp.In) else part.expression
    if isinstance(inside, exp.Any if isinstance(part, exp.EQ) else exp.All):
        inside = inside.this
    elif not isinstance(part, exp.In):
        return None
    if isinstance(inside, exp.Subquery | exp.Paren):
        inside = inside.this
    if isinstance(inside, exp.Select) and subquery_name(inside) == name:
        return part.this.unnest() if isinstance(part.this, exp.Paren) else part.this
    return None


def linked(
    statement: Statement, block: Block, steps: tuple[Step, ...], gated: Collection[str]
) -> set[tuple[str, str]]:
    """The columns of a block by which a LATERAL subquery in it is tied to its rows."""
    _, _, levels = opened(statement, block, steps, gated)
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
