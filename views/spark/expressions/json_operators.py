"""JSON in views: parts of a value, and questions about it, in PostgreSQL's operators. Pure.

Spark's own JSON functions write numbers, escapes and spaces in their own way. So the operators
become calls of one function, which cuts the text as ``views.spark.expressions.json_text`` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from sqlglot import exp

from views.parse.expression_parts import unwrapped
from views.spark.expressions.json_text import Step, UnfitJsonError, check_escapes
from views.spark.expressions.terms import Scope, Term, quote
from views.spark.expressions.text_functions import FUNCTION, asking
from views.types import BOOL, INT4, TEXT, PgType

Handler = Callable[[exp.Expr, Scope], Term]
_TEXTS = (exp.JSONExtractScalar, exp.JSONBExtractScalar)
_PARTS = (exp.JSONExtract, exp.JSONBExtract, *_TEXTS)


def refusing(sql: str) -> str:
    """Spark SQL that raises where it is read: a condition of SQLSTATE's class 22."""
    return f"CAST(CAST(concat('refused ', {sql}) AS int) AS string)"


def asked(sql: str, asking_: str) -> str:
    """Spark SQL of an answer as text; raises, where it is read, for what PostgreSQL refuses."""
    call = f"{FUNCTION}({sql}, {quote(asking_)})"
    return f"(CASE WHEN {call} = char(0) THEN {refusing(call)} ELSE {call} END)"


class _Part(NamedTuple):
    """A part of a column's value, or all of it."""

    column: Term
    steps: tuple[Step, ...]

    @property
    def type(self) -> PgType:
        return self.column.type

    def asked(self, question: str, of: Any = None) -> str:
        binary = self.type.name == "jsonb"
        return asked(self.column.sql, asking(question, self.steps, binary, of))


def _part(node: exp.Expr, scope: Scope) -> _Part:
    """Follow ``->`` and ``#>`` down to the column."""
    node, links = unwrapped(node), []
    while isinstance(node, _PARTS):
        links.append(node)
        node = unwrapped(node.this)
        if isinstance(node, _TEXTS):
            scope.refuse(node, "is text, which has no parts", "write -> before the last step")
    if not isinstance(node, exp.Column):
        reason = "parts are taken of a column's value only"
        scope.refuse(node, reason, "take them of each column: coalesce(a -> 'x', b -> 'x')")
    column = scope.compile(node)
    if column.type.name not in ("json", "jsonb"):
        scope.refuse(node, f"{column.type} is no json")
    binary = column.type.name == "jsonb"
    steps = (step for link in reversed(links) for step in _steps(link, binary, scope))
    return _Part(column, tuple(steps))


def _steps(node: exp.Expr, binary: bool, scope: Scope) -> list[Step]:
    of = unwrapped(node.args["expression"])
    if isinstance(node, exp.JSONExtract | exp.JSONExtractScalar):
        return [_step(node, of, scope)]
    names = _names(node, of, scope)
    if binary or len(names) < 2:
        return [Step("either", name) for name in names]
    return [Step("path", names)]


def _step(node: exp.Expr, of: exp.Expr, scope: Scope) -> Step:
    if isinstance(of, exp.Literal) and of.is_string:
        return Step("field", str(of.this))
    if isinstance(of, exp.JSONPath):
        scope.refuse(node, "this function is not known here", "write ->, ->>, #> or #>>")
    digits = of.this if isinstance(of, exp.Neg) else of
    if not isinstance(digits, exp.Literal) or digits.is_string or not digits.is_int:
        scope.refuse(node, "the name or number of a part has to be a literal")
    number = -int(digits.this) if isinstance(of, exp.Neg) else int(digits.this)
    if not -(1 << 31) <= number < 1 << 31:
        scope.refuse(node, f"there is no element {number}")
    return Step("element", number)


_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_PLAIN = r'((?:[^",{}\\\s]|\\.)(?:(?:[^",{}\\]|\\.)*(?:[^",{}\\\s]|\\.))?)'
_NAME = re.compile(rf"\s*(?:{_QUOTED}|{_PLAIN})\s*([,}}])", re.DOTALL | re.ASCII)


def _names(node: exp.Expr, of: exp.Expr, scope: Scope) -> list[str]:
    """The path of ``#>``: an array of texts, written either way."""
    if isinstance(of, exp.Array):
        literals = [part for part in of.expressions if isinstance(part, exp.Literal)]
        if len(literals) == len(of.expressions) and all(part.is_string for part in literals):
            return [str(part.this) for part in literals]
    elif isinstance(of, exp.Literal) and of.is_string:
        return names_of(str(of.this), node, scope)
    return scope.refuse(node, "the path has to be a literal", "write #> '{a,b}'")


def names_of(text: str, node: exp.Expr, scope: Scope) -> list[str]:
    """The texts in an array like ``{a,b}``, without NULL."""
    names, text = list[str](), text.strip(" \t\n\r\v\f")
    at, whole = 1, text.startswith("{")
    if re.fullmatch(r"\{\s*\}", text, re.ASCII):
        return names
    while whole and (found := _NAME.match(text, at)) is not None:
        quoted, plain, behind = found.groups()
        if plain is not None and plain.lower() == "null":
            scope.refuse(node, f"{text!r} has NULL in it, which is not known here")
        names.append(re.sub(r"\\(.)", r"\1", plain or quoted or "", flags=re.DOTALL))
        at = found.end()
        if behind == "}" and at == len(text):
            return names
    return scope.refuse(node, f"{text!r} is no array", "write '{a,b}'")


def extract(node: exp.Expr, scope: Scope) -> Term:
    """``->`` and ``#>``, which stay JSON, and ``->>`` and ``#>>``, which are text."""
    found = _part(node, scope)
    if isinstance(node, _TEXTS):
        return Term(found.asked("text"), TEXT)
    return Term(found.asked("part"), found.type)


def numeric_of(node: exp.Expr, term: Term, scope: Scope) -> str | None:
    """``::numeric`` of a column's text, or of a part of its value; None for any other."""
    node = unwrapped(node)
    if isinstance(node, _TEXTS):
        return _part(node, scope).asked("number")
    return asked(term.sql, asking("numeric")) if isinstance(node, exp.Column) else None


def contains(node: exp.Expr, scope: Scope) -> Term:
    """``jsonb @> '…'``, of a literal."""
    found = _jsonb(node, scope)
    wanted = unwrapped(node.expression)
    if isinstance(wanted, exp.Cast) and wanted.to.this == exp.DataType.Type.JSONB:
        wanted = unwrapped(wanted.this)
    if not isinstance(wanted, exp.Literal) or not wanted.is_string:
        scope.refuse(node, "what is to be contained has to be a literal")
    text = str(wanted.this)
    try:
        json.loads(text, parse_constant=_no_constant)
        check_escapes(text)
    except ValueError:  # of both
        scope.refuse(node, f"{text!r} is no jsonb")
    return Term(f"CAST({found.asked('contains', text)} AS boolean)", BOOL)


def _no_constant(name: str) -> NoReturn:
    raise UnfitJsonError(name)


def has(node: exp.Expr, scope: Scope) -> Term:
    """``jsonb ? 'name'``."""
    found = _jsonb(node, scope)
    name = unwrapped(node.expression)
    if not isinstance(name, exp.Literal) or not name.is_string:
        scope.refuse(node, "the name has to be a literal")
    return Term(f"CAST({found.asked('has', str(name.this))} AS boolean)", BOOL)


def _jsonb(node: exp.Expr, scope: Scope) -> _Part:
    kind = scope.compile(node.this).type
    if kind.name != "jsonb":
        scope.refuse(node, f"this operator is known of jsonb here, not of {kind}")
    return _part(node.this, scope)


def called(node: exp.Expr, scope: Scope) -> Term | None:
    """A function of JSON values; None for any other."""
    name = str(node.this).lower()
    if name not in _CALLED or len(node.expressions) != 1:
        return None
    question, kind = _CALLED[name]
    found = _part(node.expressions[0], scope)
    if not name.startswith(f"{found.type}_"):
        scope.refuse(
            node, f"{name} of {found.type}", f"write {found.type}_{name.partition('_')[2]}"
        )
    return Term(f"CAST({found.asked(question)} AS {kind.spark})", kind)


_CALLED = {
    f"{name}_{word}": asked_
    for name in ("json", "jsonb")
    for word, asked_ in (("array_length", ("length", INT4)), ("typeof", ("kind", TEXT)))
}
HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_PARTS, extract),
    exp.ArrayContainsAll: contains,
    exp.JSONBContainsTopKey: has,
}
