"""Columns that may be shown and not computed with: what the state database compares otherwise than
the source, or does not know the type of. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.maintain.mirror import LACKS
from views.maintain.tree.correlated_sources import blocks, own_expressions, queries
from views.maintain.tree.errors import refuse
from views.maintain.tree.origin import columns_of
from views.maintain.tree.tree import (
    Block,
    Query,
    Recursion,
    SetOperation,
    Statement,
    subquery_name,
)


def check_shown_only(statement: Statement) -> None:
    """Raise ``ViewError`` where such a column is more than an output as it is."""
    compared = _compared(statement)
    for block in blocks(statement.query, statement.subqueries):
        only = not (_compares(block) or id(block) in compared)
        shown = {id(output.node) for output in block.outputs} if only else set()
        for node in own_expressions(block):
            for part in node.find_all(exp.Column):
                for column in () if id(part) in shown else columns_of(block.sources, part):
                    if column.fault:
                        refuse(
                            statement.view,
                            part,
                            f"{column.name} cannot be computed with: {column.fault}",
                            _hint(column.fault, block.group is not None or block.distinct),
                        )


def _hint(fault: str, grouped: bool) -> str:
    more = (
        ", or name a PostgreSQL that has it in apply.state_dsn" if fault.startswith(LACKS) else ""
    )
    if grouped:  # what is selected there is compared, whatever it is
        way = "group in a subquery (in the SELECT list or LATERAL) and select it outside, as it is"
    else:
        way = "select it as it is"
    return f"{way}, or leave it out{more}"


def _compares(block: Block) -> bool:
    """Whether the outputs of a block are compared with each other."""
    return block.distinct or block.group is not None


def _compared(statement: Statement) -> set[int]:
    """The blocks, by their ids, whose rows a set operation compares with each other: all but UNION
    ALL do, and that where it is sorted. And those that an expression has the rows of."""
    found = _in_expressions(statement)
    for query in queries(statement.query, statement.subqueries):
        if isinstance(query, Recursion) and not query.all:
            found |= _arms(query)
        elif isinstance(query, SetOperation):
            unites = query.all and query.kind == "union"
            if not unites or query.order or query.limit:
                found |= _arms(query)
    return found


def _in_expressions(statement: Statement) -> set[int]:
    """The blocks of subqueries that give an expression a value: all but EXISTS do."""
    found: set[int] = set()
    for block in blocks(statement.query, statement.subqueries):
        for node in own_expressions(block):
            for select in node.find_all(exp.Select):
                query = statement.subqueries.get(subquery_name(select))
                if query is not None and not isinstance(select.parent, exp.Exists):
                    found |= _arms(query)
    return found


def _arms(query: Query) -> set[int]:
    if isinstance(query, Block):
        return {id(query)}
    if isinstance(query, Recursion):
        return _arms(query.anchor) | _arms(query.step)
    return _arms(query.left) | _arms(query.right)
