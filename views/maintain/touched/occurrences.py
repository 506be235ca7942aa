"""Where the tables of a view are read, and the way to each from the top. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from views.maintain.mirror import MirrorTable
from views.maintain.tree.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    joins,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step down: into a source of FROM, a subquery, a side of a set operation, or a part of a
    recursive query. ``clause`` says where the subquery stands: ``on`` is that of an outer join."""

    kind: str
    name: str
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A table where the view reads it."""

    alias: str
    table: MirrorTable
    source: Source
    steps: tuple[Step, ...]


def occurrences(statement: Statement) -> list[Occurrence]:
    """All of them, in the order of the SQL."""
    return list(_of_query(statement, statement.query, ()))


def _of_query(statement: Statement, query: Query, steps: tuple[Step, ...]) -> Iterator[Occurrence]:
    if isinstance(query, SetOperation):
        yield from _of_query(statement, query.left, (*steps, Step("side", "left")))
        yield from _of_query(statement, query.right, (*steps, Step("side", "right")))
    elif isinstance(query, Recursion):
        yield from _of_query(statement, query.anchor, (*steps, Step("part", "anchor")))
        yield from _of_query(statement, query.step, (*steps, Step("part", "step")))
    else:
        yield from _of_block(statement, query, steps)


def _of_block(statement: Statement, block: Block, steps: tuple[Step, ...]) -> Iterator[Occurrence]:
    for source in block.sources.values():
        here = (*steps, Step("source", source.alias))
        if source.table is not None:
            yield Occurrence(source.alias, source.table, source, here)
        elif source.query is not None:
            yield from _of_query(statement, source.query, here)
    for clause, node in _placed(block):
        for select, query in statement.inside(node):
            name = select.expressions[0].name
            yield from _of_query(statement, query, (*steps, Step("subquery", name, clause)))


def _placed(block: Block) -> Iterator[tuple[str, exp.Expr]]:
    """The expressions of a block that may hold subqueries, with the clause of each."""
    for join in joins(block.tree):
        yield from (("where" if join.kind == "inner" else "on", node) for node in join.on)
    yield from (("where", node) for node in block.where)
    yield from (("select", output.node) for output in block.outputs)
    yield from (("group", node) for node in block.group or ())
    yield from (("having", node) for node in block.having)
    yield from (("order", node) for node in block.order)
    yield from (("limit", node) for node in block.limit)
    for source in block.sources.values():
        if source.call is not None:
            yield "call", source.call
