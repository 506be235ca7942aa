"""Texts that are searched under a collation in which different texts are equal: PostgreSQL ends
such a statement, not at its planning but at the first row. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.function_names import words
from views.maintain.tree import functions
from views.maintain.tree.correlated_sources import blocks, own_expressions
from views.maintain.tree.errors import refuse
from views.maintain.tree.origin import of_node
from views.maintain.tree.tree import Block, Statement

_SEARCHING = words(
    """
    replace split_part starts_with string_to_array string_to_table strpos regexp_count
    regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr
    """
)
_OPERATORS = (
    exp.Like, exp.ILike, exp.SimilarTo, exp.RegexpLike, exp.RegexpILike, exp.StartsWith,
    exp.StrPosition,
)  # fmt: skip
_TEXTS = ("text", "character varying", "varchar", "name")


def check_patterns(statement: Statement) -> None:
    """Raise ``ViewError`` where a column under such a collation is searched by it."""
    for block in blocks(statement.query, statement.subqueries):
        for node in own_expressions(block):
            for part in node.walk():
                if _searches(part) and (name := _lenient(block, part)):
                    refuse(
                        statement.view, part, "PostgreSQL does not search texts under the collation"
                        f" of {name}, in which different texts are equal",
                        f'search by bytes: {name} COLLATE "C"',
                    )  # fmt: skip


def _searches(node: exp.Expr) -> bool:
    if isinstance(node, exp.Substring):  # FROM a pattern, not a number
        start = node.args.get("start")
        return isinstance(start, exp.Literal) and start.is_string
    return isinstance(node, _OPERATORS) or functions.name(node) in _SEARCHING


def _lenient(block: Block, node: exp.Expr) -> str:
    """The name of such a column that is searched; empty if there is none, or a COLLATE."""
    if node.find(exp.Collate) is not None:
        return ""
    for column in node.find_all(exp.Column):
        held = of_node(block.sources, column)
        if held and not held.equal_image and not held.fault and _kind(held.type) in _TEXTS:
            return held.name
    return ""


def _kind(type_: str) -> str:
    return type_.partition("(")[0]
