"""From a PostgreSQL expression to a Spark one: the list of what is let through. Pure.

A construct that is not listed is refused, and so is an argument of a listed one that its handler
does not read: a new version of the parser cannot slip a meaning past us.
"""

from __future__ import annotations

from sqlglot import exp

from views.spark.expressions import (
    arithmetic,
    arrays,
    casts,
    functions,
    json_operators,
    operators,
    time_texts,
    times,
)
from views.spark.expressions.functions import Handler, text_function
from views.spark.expressions.terms import ColumnRef, Scope, Term
from views.spark.expressions.unsupported import SUBQUERY, why
from views.types import BOOL, INT4


def compile_node(node: exp.Expr, scope: Scope) -> Term:
    """Translate an expression. Raises ``ViewError`` naming what is refused, and where."""
    for kind in _NOT_ROWS:
        if isinstance(node, kind):
            scope.refuse(node, *_NOT_ROWS[kind])
    if isinstance(node, exp.Anonymous):
        if (found := json_operators.called(node, scope)) is not None:
            return found
        named = _NAMED.get(node.name.lower())
        if named is not None and len(node.expressions) == named[1]:
            return named[0](node, scope)
    entry = _ALLOWED.get(type(node))
    if entry is None or node.args.get("query") is not None:  # of IN (SELECT …)
        scope.refuse(node, *why(node))
    handler, arguments = entry
    unread = [
        name
        for name, value in node.args.items()
        if value not in (None, False, [], "") and name not in arguments and name not in _HARMLESS
    ]
    if unread:
        scope.refuse(node, f"{', '.join(unread)} is not known here")
    return handler(node, scope)


_NOT_ROWS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.AggFunc: ("an aggregate has no place here", "write GROUP BY"),
    exp.Window: (
        "window functions are not supported in views",
        "use GROUP BY in a view of its own",
    ),
    exp.Subquery: SUBQUERY,
    exp.Select: SUBQUERY,
}
# Flags the parser sets that say nothing beyond what PostgreSQL means anyway.
_HARMLESS = {"safe", "typed", "coalesce", "ignore_nulls", "is_string", "_type", "is_left"}


def column(node: exp.Expr, scope: Scope) -> Term:
    """A column of one of the view's tables."""
    qualifier = node.args.get("table")
    alias = next(iter(scope.tables)) if qualifier is None else qualifier.name
    table = scope.tables.get(alias)
    if table is None:
        names = " and ".join(repr(name) for name in scope.tables)
        hint = f"write {names}" if len(scope.tables) == 1 else f"choose from {names}"
        scope.refuse(node, f"no table {alias!r} here", hint)
    found = table.column(node.name)
    if found is None:
        scope.refuse(node, table.lacking(node.name), f"choose from {table.describe()}")
    reference = ColumnRef(alias, found.name)
    scope.reads.add(reference)
    return Term(scope.named(reference), found.type)


_BINARY = {"this", "expression"}
_ALLOWED: dict[type[exp.Expr], tuple[Handler, set[str]]] = {
    exp.Column: (column, {"this", "table"}),
    exp.Literal: (operators.literal, {"this"}),
    exp.Null: (operators.null, set()),
    exp.Boolean: (operators.boolean, {"this"}),
    exp.Paren: (operators.paren, {"this"}),
    exp.And: (operators.logic("AND"), _BINARY),
    exp.Or: (operators.logic("OR"), _BINARY),
    exp.Not: (operators.negation, {"this"}),
    **dict.fromkeys(operators.COMPARED, (arrays.comparison, _BINARY)),
    exp.NullSafeEQ: (operators.distinct(""), _BINARY),
    exp.NullSafeNEQ: (operators.distinct("NOT "), _BINARY),
    exp.Between: (operators.between, {"this", "low", "high"}),
    exp.In: (operators.membership, {"this", "expressions"}),
    exp.Is: (operators.is_test, {*_BINARY, "negate"}),
    exp.Case: (operators.case, {"this", "ifs", "default"}),
    exp.Coalesce: (operators.choice("coalesce"), {"this", "expressions"}),
    exp.Greatest: (operators.choice("greatest"), {"this", "expressions"}),
    exp.Least: (operators.choice("least"), {"this", "expressions"}),
    exp.Nullif: (operators.nullif, _BINARY),
    exp.Neg: (arithmetic.sign_of, {"this"}),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), (arithmetic.binary, _BINARY)),
    exp.Cast: (casts.explicit, {"this", "to"}),
    exp.Lower: (text_function("lower", "this"), {"this"}),
    exp.Upper: (text_function("upper", "this"), {"this"}),
    exp.Length: (text_function("char_length", "this", result=INT4), {"this"}),
    exp.Reverse: (text_function("reverse", "this"), {"this"}),
    exp.MD5: (text_function("md5", "this"), {"this"}),
    exp.Replace: (
        text_function("replace", "this", "expression", "replacement"),
        {*_BINARY, "replacement"},
    ),
    exp.Translate: (text_function("translate", "this", "from_", "to"), {"this", "from_", "to"}),
    exp.StartsWith: (text_function("startswith", "this", "expression", result=BOOL), _BINARY),
    exp.Substring: (functions.substring, {"this", "start", "length"}),
    exp.Left: (functions.counted("left", "expression", 0), _BINARY),
    exp.Right: (functions.counted("right", "expression", 0), _BINARY),
    exp.Repeat: (functions.counted("repeat", "times", 0), {"this", "times"}),
    exp.Pad: (functions.pad, {*_BINARY, "fill_pattern"}),
    exp.Trim: (functions.trim, {*_BINARY, "position"}),
    exp.SplitPart: (functions.split_part, {"this", "delimiter", "part_index"}),
    exp.StrPosition: (functions.position, {"this", "substr"}),
    exp.DPipe: (functions.pipes, _BINARY),
    exp.Concat: (functions.concat, {"expressions"}),
    exp.ConcatWs: (functions.concat_ws, {"expressions"}),
    exp.Like: (functions.like("LIKE"), {*_BINARY, "negate"}),
    exp.ILike: (functions.like("ILIKE"), {*_BINARY, "negate"}),
    exp.Abs: (functions.exact_number("abs"), {"this"}),
    exp.Ceil: (functions.exact_number("ceil"), {"this"}),
    exp.Floor: (functions.exact_number("floor"), {"this"}),
    exp.Round: (functions.round_, {"this", "decimals"}),
    exp.Trunc: (functions.trunc, {"this", "decimals"}),
    exp.Extract: (times.extract, _BINARY),
    exp.TimestampTrunc: (times.date_trunc, {"this", "unit"}),
    exp.AtTimeZone: (times.at_time_zone, {"this", "zone"}),
    exp.Bracket: (arrays.element, {"this", "expressions"}),
    exp.ArraySize: (arrays.length, _BINARY),
    exp.ArrayToString: (arrays.joined, {*_BINARY, "null"}),
    **{kind: (handler, _BINARY) for kind, handler in json_operators.HANDLERS.items()},
}
# By name and how many arguments: what the parser has no kind of node for.
_NAMED: dict[str, tuple[Handler, int]] = {
    "cardinality": (arrays.cardinality, 1),
    "array_upper": (arrays.length, 2),
    "date_part": (times.date_part, 2),
    "to_char": (time_texts.to_char, 2),
}
