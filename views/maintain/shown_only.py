"""Columns that may be shown and not computed with: what the state database compares otherwise than
the source, or does not know the type of. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.maintain.errors import refuse
from views.maintain.free import blocks, own_expressions
from views.maintain.origin import columns_of
from views.maintain.tree import Block, Statement


def check_shown_only(statement: Statement) -> None:
    """Raise ``ViewError`` where such a column is more than an output as it is."""
    for block in blocks(statement.query, statement.subqueries):
        shown = {id(output.node) for output in block.outputs} if not _compares(block) else set()
        for node in own_expressions(block):
            for part in node.find_all(exp.Column):
                for column in () if id(part) in shown else columns_of(block.sources, part):
                    if column.fault:
                        refuse(
                            statement.view,
                            part,
                            f"{column.name} cannot be computed with: {column.fault}",
                            "select it as it is, or leave it out",
                        )


def _compares(block: Block) -> bool:
    """Whether the outputs of a block are compared with each other."""
    return block.distinct or block.group is not None
