"""Questions about parts of a view's SQL that need no types. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from views.function_names import AGGREGATES
from views.spark.expressions.terms import ColumnRef

# A node's meta says under this name how PostgreSQL is to read it, where not as it was declared.
POSTGRES = "postgres"


def shape(node: exp.Expr) -> str:
    """Equal for expressions that are written alike."""
    return unwrapped(node).sql("postgres", identify=True, comments=False)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """The node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def plain(node: exp.Expr) -> ColumnRef | None:
    """The qualified column that a node is, or None."""
    node = unwrapped(node)
    return ColumnRef(node.table, node.name) if isinstance(node, exp.Column) else None


def columns(node: exp.Expr) -> frozenset[ColumnRef]:
    """The qualified columns that a node reads."""
    return frozenset(ColumnRef(part.table, part.name) for part in node.find_all(exp.Column))


class Quantified(NamedTuple):
    """``any``, ``some`` or ``all``, and the array of which it is asked."""

    word: str
    of: exp.Expr


QUANTIFIERS = ("any", "some", "all")


def quantified(node: exp.Expr) -> Quantified | None:
    """What a comparison like ``x = any (array)`` compares with; None of any other node.

    It is no equality of two values, and of an empty array it is no question of ``x`` either.
    """
    other = node.args.get("expression")
    if isinstance(other, exp.Any | exp.All) and isinstance(other.this, exp.Paren):
        return Quantified(type(other).__name__.lower(), unwrapped(other.this))
    if isinstance(other, exp.Anonymous) and len(other.expressions) == 1:
        word = str(other.this).lower()
        if word in QUANTIFIERS:
            return Quantified(word, unwrapped(other.expressions[0]))
    return None


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What AND puts together."""
    node = unwrapped(node)
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def in_postgres(node: exp.Expr) -> str:
    """The node in PostgreSQL's words, names quoted, marked nodes as they are marked."""

    def written(part: exp.Expr) -> exp.Expr:
        text = part.meta.get(POSTGRES)
        return part if text is None else exp.Var(this=text)

    marked = node.copy().transform(written, copy=False)
    return marked.sql("postgres", identify=True, comments=False)


OBJECTS = ("json_build_object", "jsonb_build_object")


def is_object(node: exp.Expr) -> bool:
    """Whether it makes an object: values with names, in PostgreSQL's words or Spark's."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in OBJECTS
    return isinstance(node, exp.Struct)


_AGGREGATES = AGGREGATES | {"collect_list", "collect_set"}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the function makes one value of many rows, also one that is not maintained."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in _AGGREGATES
    return isinstance(node, exp.AggFunc | exp.JSONArrayAgg | exp.WithinGroup)


def is_json_list(node: exp.Expr) -> bool:
    """Whether it holds a list that is JSON in PostgreSQL, and an array in a store."""
    return any(
        isinstance(part, exp.JSONArrayAgg)
        or (isinstance(part, exp.Anonymous) and part.name.lower() == "jsonb_agg")
        for part in node.walk()
    )


def aggregates(root: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates below ``root``, those over windows left out."""
    return (
        node
        for node in root.walk()
        if is_aggregate(node) and not isinstance(node.parent, exp.Window)
    )
