"""Which columns hold numbers that are written in one way, though their type would allow several:
``extract(year from d)`` is a numeric of any form to PostgreSQL. Pure."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views.function_names import words
from views.maintain.tree import functions
from views.maintain.tree.tree import Query, Recursion, SetOperation

FIELD: Final = "field of a time"
ROUNDED: Final = "rounded"
_ROUNDING: Final = words("ceil ceiling floor round trunc")
_WITH_DIGITS: Final = 2
"""Arguments of ``round`` and ``trunc`` whose second one tells the digits."""


def number_form(query: Query, position: int) -> str:
    """How the numbers of a query's column came to be written in one way: ``FIELD``, or ``ROUNDED``
    if they are numeric (of floats there is a second zero); "" where they may not be."""
    if isinstance(query, SetOperation | Recursion):  # its sides may have one each: 1 and 1.00
        return ""
    node = query.outputs[position].node
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and node.table in query.sources:
        source = query.sources[node.table]
        inner = source.query
        return "" if inner is None else number_form(inner, source.columns.index(node.name))
    name, arguments = functions.name(node), node.expressions
    if isinstance(node, exp.Extract) or name == "date_part":
        return FIELD
    fixed = len(arguments) < _WITH_DIGITS or isinstance(arguments[-1], exp.Literal)
    return ROUNDED if name in _ROUNDING and fixed else ""
