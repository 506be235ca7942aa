"""Arithmetic of view expressions, in the types that PostgreSQL computes in. Pure."""

from __future__ import annotations

from sqlglot import exp

from views.spark.expressions.operators import as_numeric, common, limited
from views.spark.expressions.terms import Scope, Term, cast, family, number, readable
from views.spark.expressions.times import moved, shift_of
from views.types import DATE, FLOAT8, FLOATS, INTEGERS, TEXT, PgType

_TIMES = ("timestamp", "timestamptz", "time", "timetz", "interval")


def sign_of(node: exp.Expr, scope: Scope) -> Term:
    term = _number(node, scope, node.this)
    if term.text is not None:  # so that the smallest integer can be written
        negated = term.text[1:] if term.text.startswith("-") else f"-{term.text}"
        return number(negated, node, scope)
    if term.type.precision > _SIGNED:
        text = f"CAST({term.sql} AS string)"
        other = f"CASE WHEN {text} LIKE '-%' THEN substring({text}, 2) ELSE '-' || {text} END"
        return cast(Term(f"({other})", TEXT), term.type)
    return Term(f"(- {term.sql})", term.type)


_SIGNED = 34
"""Digits to which Spark rounds a decimal whose sign it changes (``BigDecimal``'s DECIMAL128)."""


def absolute(term: Term) -> Term:
    """``abs`` of a numeric."""
    if term.type.precision > _SIGNED:
        return cast(Term(f"replace(CAST({term.sql} AS string), '-', '')", TEXT), term.type)
    return Term(f"abs({term.sql})", term.type)


def _number(node: exp.Expr, scope: Scope, part: exp.Expr) -> Term:
    term = readable(scope.compile(part), part, scope)
    if family(term.type) != "number":
        is_time = term.type.name in _TIMES
        hint = "write the cast"
        if is_time:
            hint = "add an interval of one unit: placed + interval '30 days'"
        sides = (node.this, node.args.get("expression"))
        times = all(side and scope.compile(side).type.name in _TIMES for side in sides)
        if isinstance(node, exp.Sub) and times:
            hint = "write the seconds: extract(epoch from a - b)"
        scope.refuse(node, f"{term.type} is not a number", hint)
    return term


def binary(node: exp.Expr, scope: Scope) -> Term:
    """``+``, ``-``, ``*``, ``/`` and ``%``."""
    left = readable(scope.compile(node.this), node.this, scope)
    if isinstance(node, exp.Add | exp.Sub) and (by := shift_of(node.expression, scope)) is not None:
        return moved(node, scope, left, by)
    if left.type == DATE and isinstance(node, exp.Add | exp.Sub):
        return _date_arithmetic(node, scope, left)
    left, right = _number(node, scope, node.this), _number(node, scope, node.expression)
    names = {left.type.name, right.type.name}
    if names & set(FLOATS):
        return _float_arithmetic(node, scope, left, right)
    if names <= set(INTEGERS):
        left, right = common(node, scope, [left, right])
        return _integer_arithmetic(node, left, right)
    return _numeric_arithmetic(node, scope, left, right)


_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}


def _date_arithmetic(node: exp.Expr, scope: Scope, left: Term) -> Term:
    right = readable(scope.compile(node.expression), node.expression, scope)
    if right.type.name in ("int2", "int4"):
        function = "date_add" if isinstance(node, exp.Add) else "date_sub"
        return Term(f"{function}({left.sql}, {right.sql})", DATE)
    if right.type == DATE and isinstance(node, exp.Sub):
        return Term(f"datediff({left.sql}, {right.sql})", PgType("int4"))
    return scope.refuse(node, f"date and {right.type} are not added or subtracted here")


def _integer_arithmetic(node: exp.Expr, left: Term, right: Term) -> Term:
    if isinstance(node, exp.Div):  # PostgreSQL truncates toward zero, and keeps the type
        return cast(Term(f"({left.sql} DIV {right.sql})", left.type), left.type)
    return Term(f"({left.sql} {_SIGNS[type(node)]} {right.sql})", left.type)


def _float_arithmetic(node: exp.Expr, scope: Scope, left: Term, right: Term) -> Term:
    if isinstance(node, exp.Mod):
        scope.refuse(node, "% is not defined for floats")
    if left.type != right.type:
        left, right = cast(left, FLOAT8), cast(right, FLOAT8)
    kind = left.type
    if isinstance(node, exp.Div):  # Spark divides floats as doubles; so does rounding twice agree
        quotient = Term(f"({left.sql} / {right.sql})", FLOAT8)
        return quotient if kind == FLOAT8 else cast(quotient, kind)
    return Term(f"({left.sql} {_SIGNS[type(node)]} {right.sql})", kind)


def _numeric_arithmetic(node: exp.Expr, scope: Scope, left: Term, right: Term) -> Term:
    a, b = as_numeric(left.type), as_numeric(right.type)
    left = left if left.type == a else cast(left, a)
    right = right if right.type == b else cast(right, b)
    whole, scale = max(a.precision - a.scale, b.precision - b.scale), max(a.scale, b.scale)
    if isinstance(node, exp.Div):
        hint = "cast an operand to float8, or to integers"
        scope.refuse(node, "the scale of a numeric division depends on the values", hint)
    if isinstance(node, exp.Mul):
        kind = limited(node, scope, a.precision + b.precision + 1, a.scale + b.scale)
    elif isinstance(node, exp.Mod):
        kind = limited(node, scope, whole + scale, scale)
    else:
        kind = limited(node, scope, whole + scale + 1, scale)
    return cast(Term(f"({left.sql} {_SIGNS[type(node)]} {right.sql})", kind), kind)
