"""Operators of view expressions: comparison, logic, CASE and its kin. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from views.enum_labels import check_labels
from views.spark.expressions.terms import (
    Scope,
    Term,
    adopt,
    cast,
    family,
    number,
    quote,
    readable,
    replace_type,
)
from views.types import BOOL, FLOAT8, FLOATS, INTEGERS, TEXT, UNKNOWN, PgType, numeric

_BPCHAR = PgType("bpchar")
_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ORDERED = ("number", "bool", "date", "timestamp", "timestamptz")
EQUAL = (*_ORDERED, "text", "uuid", "enum", "bytea")


def literal(node: exp.Expr, scope: Scope) -> Term:
    text = str(node.this)
    return Term(quote(text), UNKNOWN, text) if node.is_string else number(text, node, scope)


def null(_node: exp.Expr, _scope: Scope) -> Term:
    return Term("NULL", UNKNOWN)


def boolean(node: exp.Expr, _scope: Scope) -> Term:
    return Term("TRUE" if node.this else "FALSE", BOOL)


def paren(node: exp.Expr, scope: Scope) -> Term:
    return scope.compile(node.this)


def condition(node: exp.Expr, scope: Scope) -> Term:
    """An operand that has to be boolean."""
    term = adopt(scope.compile(node), BOOL, node, scope)
    if term.type != BOOL:
        scope.refuse(node, f"is {term.type}, not boolean")
    return term


def logic(word: str) -> Callable[[exp.Expr, Scope], Term]:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        left, right = condition(node.this, scope), condition(node.expression, scope)
        return Term(f"({left.sql} {word} {right.sql})", BOOL)

    return handle


def negation(node: exp.Expr, scope: Scope) -> Term:
    return Term(f"(NOT {condition(node.this, scope).sql})", BOOL)


def operands(node: exp.Expr, scope: Scope, *parts: exp.Expr) -> list[Term]:
    """Compile, and let literals of unknown type take the type of the first typed operand."""
    return typed(node, scope, parts, [scope.compile(part) for part in parts])


def typed(
    node: exp.Expr, scope: Scope, parts: Sequence[exp.Expr], terms: Sequence[Term]
) -> list[Term]:
    """``operands`` that are compiled already: ``terms`` of ``parts``."""
    first = next((i for i, term in enumerate(terms) if term.type != UNKNOWN), None)
    known = TEXT if first is None else terms[first].type
    if first is not None and known.name == "enum":
        check_labels(terms, parts[first], node, scope)
    found = [adopt(term, known, node, scope) for term in terms]
    if any(term.type.name == "bpchar" for term in found):
        # PostgreSQL takes a varchar beside it for char, and the blanks of neither count.
        found = [
            replace_type(term, _BPCHAR) if term.type.name == "varchar" else term for term in found
        ]
    return [readable(term, part, scope) for term, part in zip(found, parts, strict=True)]


def results(node: exp.Expr, scope: Scope, *parts: exp.Expr) -> list[Term]:
    """Operands one of which is the result, as it is."""
    for part in parts:
        if scope.compile(part).type.name == "bpchar":
            scope.refuse(part, "the blanks of char(n) would be lost", "cast it to text")
    return operands(node, scope, *parts)


def common(node: exp.Expr, scope: Scope, terms: Sequence[Term]) -> list[Term]:
    """Cast to the type PostgreSQL would choose for CASE, COALESCE or a comparison."""
    kinds = [term.type for term in terms]
    if len({_matched(kind) for kind in kinds}) > 1:
        names = " and ".join(dict.fromkeys(str(kind) for kind in kinds))
        scope.refuse(node, f"mixes {names}", "write the cast")
    if family(kinds[0]) != "number":
        return list(terms)
    target = kinds[0]
    for kind in kinds[1:]:
        target = _wider(node, scope, target, kind)
    return [term if term.type == target else cast(term, target) for term in terms]


def _matched(kind: PgType) -> tuple[str, ...]:
    """Equal for types that go together: arrays and objects have to hold the same."""
    if kind.name == "struct":
        return ("struct", str(kind))
    if kind.name != "array":
        return (family(kind),)
    item = kind.item
    return ("array", family(item) if family(item) == "text" else str(item))


def _wider(node: exp.Expr, scope: Scope, left: PgType, right: PgType) -> PgType:
    if left == right:
        return left
    names = {left.name, right.name}
    if names & set(FLOATS):
        if "float8" not in names:
            scope.refuse(node, f"mixes {left} and {right}", "cast one to float8")
        return FLOAT8
    if names <= set(INTEGERS):
        return max(left, right, key=lambda kind: _DIGITS[kind.name])
    left, right = as_numeric(left), as_numeric(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return limited(node, scope, whole + scale, scale)


def as_numeric(kind: PgType) -> PgType:
    """The numeric that holds every value of an integer type."""
    return numeric(_DIGITS[kind.name], 0) if kind.name in _DIGITS else kind


def limited(node: exp.Expr, scope: Scope, precision: int, scale: int) -> PgType:
    """The numeric with so many digits, if Spark has it."""
    kind = numeric(precision, scale)
    if not kind.exact:
        scope.refuse(node, f"may need {precision} digits and Spark has 38", "cast to fewer digits")
    return kind


def comparison(node: exp.Expr, scope: Scope) -> Term:
    left, right = compared(node, scope, node.this, node.expression)
    if type(node) not in (exp.EQ, exp.NEQ):
        ordered(node, scope, left)
    return Term(f"({left.sql} {COMPARED[type(node)]} {right.sql})", BOOL)


def compared(node: exp.Expr, scope: Scope, *parts: exp.Expr) -> list[Term]:
    """Operands brought to one type that has an equality both systems agree on."""
    return comparable(node, scope, operands(node, scope, *parts))


def comparable(node: exp.Expr, scope: Scope, terms: list[Term]) -> list[Term]:
    """``compared`` of typed operands."""
    if len({term.type for term in terms}) > 1 and not isinstance(node, exp.In):
        # An operator takes float8 where CASE and IN take float4.
        floats = any(term.type.name in FLOATS for term in terms)
        numbers = all(family(term.type) == "number" for term in terms)
        terms = [cast(term, FLOAT8) for term in terms] if floats and numbers else terms
    terms = common(node, scope, terms)
    if family(terms[0].type) not in EQUAL:
        hint = "compare its text: ->>" if family(terms[0].type) in ("json", "jsonb") else ""
        scope.refuse(node, f"{terms[0].type} values cannot be compared here", hint)
    return terms


def ordered(node: exp.Expr, scope: Scope, term: Term) -> None:
    kind = family(term.type)
    if kind in _ORDERED:
        return
    reason = f"the order of {term.type} values is not known here"
    if kind in ("text", "enum"):
        reason = f"the order of {term.type} values is the database's own (collation, declaration)"
    compares = kind in EQUAL and isinstance(node, exp.Binary | exp.Between)
    scope.refuse(node, reason, "compare with = or <> only" if compares else "")


def distinct(prefix: str) -> Callable[[exp.Expr, Scope], Term]:
    def handle(node: exp.Expr, scope: Scope) -> Term:
        left, right = compared(node, scope, node.this, node.expression)
        return Term(f"({prefix}({left.sql} <=> {right.sql}))", BOOL)

    return handle


def between(node: exp.Expr, scope: Scope) -> Term:
    value, low, high = compared(node, scope, node.this, node.args["low"], node.args["high"])
    ordered(node, scope, value)
    return Term(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", BOOL)


def membership(node: exp.Expr, scope: Scope) -> Term:
    value, *items = compared(node, scope, node.this, *node.expressions)
    return Term(f"({value.sql} IN ({', '.join(item.sql for item in items)}))", BOOL)


def is_test(node: exp.Expr, scope: Scope) -> Term:
    word = "NOT NULL" if node.args.get("negate") else "NULL"
    if isinstance(node.expression, exp.Null):
        return Term(f"({scope.compile(node.this).sql} IS {word})", BOOL)
    if not isinstance(node.expression, exp.Boolean) or node.args.get("negate"):
        scope.refuse(node, "only IS [NOT] NULL, TRUE and FALSE are known")
    value = "TRUE" if node.expression.this else "FALSE"
    return Term(f"({condition(node.this, scope).sql} IS {value})", BOOL)


def case(node: exp.Expr, scope: Scope) -> Term:
    branches: list[Any] = node.args["ifs"]
    tests = [_case_test(node, branch, scope) for branch in branches]
    default = node.args.get("default") or exp.Null()
    values = common(
        node, scope, results(node, scope, *(branch.args["true"] for branch in branches), default)
    )
    pairs = zip(tests, values, strict=False)
    whens = " ".join(f"WHEN {test} THEN {result.sql}" for test, result in pairs)
    return Term(f"(CASE {whens} ELSE {values[-1].sql} END)", values[0].type)


def _case_test(node: exp.Expr, branch: Any, scope: Scope) -> str:
    if node.this is None:
        return condition(branch.this, scope).sql
    left, right = compared(node, scope, node.this, branch.this)
    return f"{left.sql} = {right.sql}"


def choice(function: str) -> Callable[[exp.Expr, Scope], Term]:
    """COALESCE, GREATEST and LEAST; the last two ignore NULLs in both systems."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        terms = common(node, scope, results(node, scope, node.this, *node.expressions))
        if function != "coalesce":
            ordered(node, scope, terms[0])
        if len(terms) == 1:
            return terms[0]
        return Term(f"{function}({', '.join(term.sql for term in terms)})", terms[0].type)

    return handle


def nullif(node: exp.Expr, scope: Scope) -> Term:
    left, right = compared(node, scope, node.this, node.expression)
    plain = results(node, scope, node.this, node.expression)[0]
    return Term(f"(CASE WHEN {left.sql} = {right.sql} THEN NULL ELSE {plain.sql} END)", plain.type)
