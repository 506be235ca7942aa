"""Aggregates that PostgreSQL and Spark were found to agree on. Pure.

Every value is exact: sums and averages of floats depend on the order they are added in, so that a
recomputation would give another one; they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from views.parse.expression_parts import POSTGRES, in_postgres
from views.spark.expressions.average import divided
from views.spark.expressions.casts import way_to_text
from views.spark.expressions.operators import EQUAL, condition
from views.spark.expressions.terms import Scope, Term, cast, family, quote, readable
from views.spark.nested_rows import (
    Sort,
    array,
    array_type,
    listing,
    order_by,
    sortable,
    unless_empty,
)
from views.types import BOOL, INT8, INTEGERS, TEXT, PgType, numeric

_SPARK_DIGITS = 38
_ROWS_DIGITS = 10  # by which Spark widens a sum


def aggregate(node: exp.Expr, where: str, scope: Scope, ties: Sequence[Sort]) -> Term:
    """Translate an aggregate.

    ``where`` is Spark SQL of its FILTER, or nothing; ``scope`` compiles what stands inside of it.
    ``ties`` are what the rows of a group are told apart by. Raises ``ViewError``.
    """
    if (lists := _list(node)) is not None:
        words, body = lists
        return _array(node, where, scope, ties, words, body)
    if isinstance(node, exp.GroupConcat):
        return _joined(node, where, scope, ties)
    handler = _HANDLERS.get(type(node)) or (_every if isinstance(node, exp.Anonymous) else None)
    if handler is None or (isinstance(node, exp.Anonymous) and node.name.lower() != "every"):
        scope.refuse(node, "this aggregate is not maintained", "count, sum, avg, min and max are")
    return handler(node, f" FILTER (WHERE {where})" if where else "", scope)


_Handler = Callable[[Any, str, Scope], Term]


def _argument(node: Any, scope: Scope) -> tuple[exp.Expr, str]:
    """The one argument, and DISTINCT if it stands before it."""
    argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    if isinstance(node, exp.Anonymous):
        several = len(node.expressions) != 1
    else:
        several = bool(node.expressions)
    word = ""
    if isinstance(argument, exp.Distinct):
        several = several or len(argument.expressions) != 1 or bool(argument.args.get("on"))
        argument, word = argument.expressions[0], "DISTINCT "
    if several or isinstance(argument, exp.Order):
        scope.refuse(node, "takes one argument")
    return argument, word


def _count(node: Any, filtered: str, scope: Scope) -> Term:
    if isinstance(node.this, exp.Star):
        return Term(f"count(*){filtered}", INT8)
    argument, word = _argument(node, scope)
    term = scope.compile(argument)
    if word:
        term = readable(term, argument, scope)
        if family(term.type) not in EQUAL:
            reason = f"{term.type} values cannot be distinguished here"
            scope.refuse(node, reason, way_to_text(term.type))
    return Term(f"count({word}{term.sql}){filtered}", INT8)


def _exact_number(node: Any, argument: exp.Expr, scope: Scope) -> Term:
    term = readable(scope.compile(argument), argument, scope)
    if family(term.type) != "number":
        scope.refuse(node, f"{term.type} is not a number", "write the cast")
    if term.type.name not in INTEGERS and not term.type.exact:
        reason = f"{term.type} values have a sum that depends on their order"
        scope.refuse(node, reason, "cast them to an integer, or hold them as numeric(p,s)")
    return term


def _total(term: Term, word: str, filtered: str) -> Term:
    """The sum: of int8 and numerics a numeric, of smaller integers int8."""
    if term.type.name in ("int2", "int4"):
        return Term(f"sum({word}{term.sql}){filtered}", INT8)
    kind = numeric(19, 0) if term.type == INT8 else term.type
    wide = numeric(min(kind.precision + _ROWS_DIGITS, _SPARK_DIGITS), kind.scale)
    added = term if term.type == kind else cast(term, kind)
    return Term(f"sum({word}{added.sql}){filtered}", wide)


def _sum(node: Any, filtered: str, scope: Scope) -> Term:
    argument, word = _argument(node, scope)
    return _total(_exact_number(node, argument, scope), word, filtered)


def _avg(node: Any, filtered: str, scope: Scope) -> Term:
    argument, word = _argument(node, scope)
    term = _exact_number(node, argument, scope)
    total = _total(term, word, filtered)
    scale = term.type.scale if term.type.name == "numeric" else 0
    wide = total if total.type.exact else cast(total, numeric(19, 0))
    counted = f"count({word}{term.sql}){filtered}"
    return Term(divided(wide.sql, counted, scale), PgType("numeric"))


def _extreme(word: str) -> _Handler:
    def handle(node: Any, filtered: str, scope: Scope) -> Term:
        argument, _ = _argument(node, scope)
        term = sortable(argument, scope)
        if term.type.name in ("bool", "uuid"):
            scope.refuse(node, f"PostgreSQL has no {word} of {term.type}")
        return Term(f"{word}({term.sql}){filtered}", term.type)

    return handle


def _logic(word: str) -> _Handler:
    def handle(node: Any, filtered: str, scope: Scope) -> Term:
        argument, _ = _argument(node, scope)
        return Term(f"{word}({condition(argument, scope).sql}){filtered}", BOOL)

    return handle


_every = _logic("bool_and")
_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
    exp.LogicalAnd: _logic("bool_and"),
    exp.LogicalOr: _logic("bool_or"),
}


def _list(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Whose words make an array here, and of what; None where none is made."""
    if isinstance(node, exp.ArrayAgg | exp.JSONArrayAgg):
        return "postgres", node.this
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        name = node.name.lower()
        if name in ("jsonb_agg", "collect_list"):
            return ("spark" if name == "collect_list" else "postgres"), node.expressions[0]
    return None


def _array(
    node: exp.Expr, where: str, scope: Scope, ties: Sequence[Sort], words: str, body: exp.Expr
) -> Term:
    """PostgreSQL keeps NULLs and makes nothing of nothing; Spark's ``collect_list`` neither."""
    listed = listing(node, body, scope, ties)
    kind = array_type(node, listed.value.type, scope)
    of_objects = kind.element == "struct"
    value = in_postgres(listed.node)
    made = f"{'json_agg' if of_objects else 'array_agg'}({value}{order_by(listed.sorts)})"
    filtering = _filter_of(node)
    if words == "postgres":
        node.meta[POSTGRES] = made
        sql = array(listed, where)
        return Term(unless_empty(sql) if where else sql, kind)
    if not of_objects:
        there = f"({listed.value.sql} IS NOT NULL)"
        where = f"{there} AND ({where})" if where else there
        filtering = [f"({value}) IS NOT NULL", *filtering]
    condition_ = f" FILTER (WHERE {' AND '.join(filtering)})" if filtering else ""
    nothing = "'[]'::json" if of_objects else "'{}'"
    whole = node.parent if isinstance(node.parent, exp.Filter) else node
    whole.meta[POSTGRES] = f"coalesce({made}{condition_}, {nothing})"
    return Term(array(listed, where), kind)


def _filter_of(node: exp.Expr) -> list[str]:
    parent = node.parent
    return [f"({in_postgres(parent.expression.this)})"] if isinstance(parent, exp.Filter) else []


def _joined(node: exp.GroupConcat, where: str, scope: Scope, ties: Sequence[Sort]) -> Term:
    """``string_agg(x, ',')``: NULLs are left out, and of nothing it is NULL."""
    listed = listing(node, node.this, scope, ties, of_texts=True)
    separator = node.args.get("separator")
    if family(listed.value.type) != "text":
        kind = listed.value.type
        scope.refuse(node, f"{kind} is not text", way_to_text(kind))
    if not isinstance(separator, exp.Literal) or not separator.is_string:
        scope.refuse(node, "the separator has to be a literal")
    there = f"({listed.value.sql} IS NOT NULL)"
    sql = unless_empty(array(listed, f"{there} AND ({where})" if where else there))
    between = separator.sql("postgres")
    value = in_postgres(listed.node)
    node.meta[POSTGRES] = f"string_agg({value}, {between}{order_by(listed.sorts)})"
    return Term(f"array_join({sql}, {quote(str(separator.this))})", TEXT)


def or_empty(node: exp.Coalesce) -> exp.Expr | None:
    """The list in ``coalesce(list, '[]')``, or None when it is something else."""
    if len(node.expressions) != 1:
        return None
    other = node.expressions[0]
    other = other.this if isinstance(other, exp.Cast) else other
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    empty = isinstance(other, exp.Literal) and other.is_string and other.this in ("[]", "{}")
    return node.this if empty and _list(inner) is not None else None
