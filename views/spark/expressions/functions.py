"""Functions of view expressions that were found equal in PostgreSQL and Spark. Pure.

Upper and lower case follow Unicode; a database whose collation maps case otherwise (``C``,
Turkish) differs beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from views.spark.expressions.arithmetic import absolute
from views.spark.expressions.casts import check_digits, to_text, way_to_text
from views.spark.expressions.operators import operands
from views.spark.expressions.terms import (
    Scope,
    Term,
    adopt,
    cast,
    family,
    literal_count,
    quote,
    readable,
)
from views.types import BOOL, FLOAT8, FLOATS, INT4, INTEGERS, TEXT, numeric

Handler = Callable[[exp.Expr, Scope], Term]


def texts(node: exp.Expr, scope: Scope, *parts: exp.Expr | None) -> list[str]:
    """Compile arguments that have to be text."""
    found = []
    for part in parts:
        if part is None:
            continue
        term = adopt(readable(scope.compile(part), part, scope), TEXT, part, scope)
        if family(term.type) != "text":
            scope.refuse(node, f"{term.type} is not text", way_to_text(term.type))
        found.append(term.sql)
    return found


def text_function(name: str, *arguments: str, result: Any = TEXT) -> Handler:
    """A function whose arguments are all text, named as sqlglot names them."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        sql = texts(node, scope, *(node.args.get(argument) for argument in arguments))
        return Term(f"{name}({', '.join(sql)})", result)

    return handle


def substring(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    start = literal_count(node, scope, node.args.get("start"), 1)
    if node.args.get("length") is None:
        return Term(f"substring({text}, {start})", TEXT)
    length = literal_count(node, scope, node.args["length"], 0)
    return Term(f"substring({text}, {start}, {length})", TEXT)


def counted(name: str, argument: str, least: int) -> Handler:
    """A text and a literal count: LEFT, RIGHT, REPEAT."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        (text,) = texts(node, scope, node.this)
        count = literal_count(node, scope, node.args.get(argument), least)
        return Term(f"{name}({text}, {count})", TEXT)

    return handle


def pad(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    fill = texts(node, scope, node.args.get("fill_pattern")) or [quote(" ")]
    width = literal_count(node, scope, node.expression, 0)
    name = "lpad" if node.args.get("is_left") else "rpad"
    return Term(f"{name}({text}, {width}, {fill[0]})", TEXT)


def trim(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    side = str(node.args.get("position") or "BOTH").upper()
    characters = texts(node, scope, node.args.get("expression")) or [quote(" ")]
    return Term(f"trim({side} {characters[0]} FROM {text})", TEXT)


def split_part(node: exp.Expr, scope: Scope) -> Term:
    text, delimiter = texts(node, scope, node.this, node.args.get("delimiter"))
    part = literal_count(node, scope, node.args.get("part_index"), 1)
    return Term(f"split_part({text}, {delimiter}, {part})", TEXT)


def position(node: exp.Expr, scope: Scope) -> Term:
    text, sought = texts(node, scope, node.this, node.args.get("substr"))
    return Term(f"instr({text}, {sought})", INT4)


def _as_text(node: exp.Expr, scope: Scope, part: exp.Expr) -> Term:
    term = adopt(scope.compile(part), TEXT, part, scope)
    check_digits(part, scope)
    return term if family(term.type) == "text" else to_text(node, scope, term, TEXT)


def pipes(node: exp.Expr, scope: Scope) -> Term:
    """``||``: NULL if either is; at least one side has to be text already."""
    left, right = (scope.compile(part) for part in (node.this, node.expression))
    if not any(family(term.type) in ("text", "unknown", "bpchar") for term in (left, right)):
        scope.refuse(node, f"|| of {left.type} and {right.type}", "write ::text")
    if {left.type.name, right.type.name} & {"json", "jsonb", "array", "bytea", "uuid"}:
        scope.refuse(node, f"|| of {left.type} and {right.type}", "write ::text")
    sides = (_as_text(node, scope, part) for part in (node.this, node.expression))
    return Term(f"({' || '.join(side.sql for side in sides)})", TEXT)


def _shown(node: exp.Expr, scope: Scope, part: exp.Expr) -> str:
    """An argument of any type, as ``concat`` and ``concat_ws`` show it: not by a cast to text."""
    term = scope.compile(part)
    if term.type.name == "bpchar":
        return term.sql  # with its blanks
    if term.type == BOOL:
        return f"(CASE WHEN {term.sql} THEN 't' WHEN NOT {term.sql} THEN 'f' END)"
    return _as_text(node, scope, part).sql


def concat(node: exp.Expr, scope: Scope) -> Term:
    """``concat`` skips NULLs in PostgreSQL."""
    parts = [_shown(node, scope, part) for part in node.expressions]
    return Term(f"concat_ws('', {', '.join(parts)})", TEXT)


def concat_ws(node: exp.Expr, scope: Scope) -> Term:
    separator, *rest = node.expressions
    parts = [_as_text(node, scope, separator).sql, *(_shown(node, scope, part) for part in rest)]
    return Term(f"concat_ws({', '.join(parts)})", TEXT)


_ESCAPE = re.compile(r"\\[^%_\\]|(?<!\\)(\\\\)*\\$")


def like(word: str) -> Handler:
    """LIKE and ILIKE with a literal pattern."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        if scope.compile(node.this).type.name == "bpchar":
            scope.refuse(node, "LIKE counts the trailing blanks of char(n)", "cast it to text")
        (text,) = texts(node, scope, node.this)
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            scope.refuse(node, "the pattern has to be a literal")
        if _ESCAPE.search(str(pattern.this)):
            scope.refuse(node, "a backslash may only stand before %, _ and itself")
        negated = "NOT " if node.args.get("negate") else ""
        return Term(f"({text} {negated}{word} {quote(str(pattern.this))})", BOOL)

    return handle


def exact_number(name: str) -> Handler:
    """ABS, CEIL and FLOOR of integers and numerics."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        (term,) = operands(node, scope, node.this)
        kind = term.type
        if kind.name in INTEGERS:
            if name != "abs":
                scope.refuse(node, f"{name} of an integer is a float in PostgreSQL", "leave it out")
            return Term(f"abs({term.sql})", kind)
        if kind.name in FLOATS and name == "abs":
            return Term(f"abs({term.sql})", kind)
        if kind.name != "numeric":
            scope.refuse(node, f"{name} of {kind} is not known to be exact")
        if name == "abs":
            return absolute(term)
        whole = numeric(min(kind.precision - kind.scale + 1, 38), 0)
        return cast(Term(f"{name}({term.sql})", whole), whole)

    return handle


def round_(node: exp.Expr, scope: Scope) -> Term:
    decimals = node.args.get("decimals")
    unlimited = scope.compile(node.this)
    if unlimited.type.name == "numeric" and not unlimited.type.exact:  # from its text
        places = 0 if decimals is None else literal_count(node, scope, decimals, 0)
        return cast(unlimited, numeric(38, min(places, 38)))
    (term,) = operands(node, scope, node.this)
    if term.type.name == "float8" and decimals is None:
        return Term(f"rint({term.sql})", term.type)
    if term.type.name != "numeric":
        scope.refuse(node, f"round of {term.type} is not known to be exact", "cast to numeric(p,s)")
    places = 0 if decimals is None else literal_count(node, scope, decimals, 0)
    if places >= term.type.scale:
        return term
    kind = numeric(min(term.type.precision - term.type.scale + places + 1, 38), places)
    return cast(Term(f"round({term.sql}, {places})", kind), kind)


def trunc(node: exp.Expr, scope: Scope) -> Term:
    """TRUNC: toward zero."""
    decimals = node.args.get("decimals")
    (term,) = operands(node, scope, node.this)
    if term.type == FLOAT8 and decimals is None:
        sql = term.sql  # from 2**52 on every float is whole, and % would lose infinity
        whole = f"abs({sql}) < 4503599627370496D THEN {sql} - {sql} % 1D"
        return Term(f"(CASE WHEN {whole} ELSE {sql} END)", FLOAT8)
    if term.type.name in INTEGERS:
        scope.refuse(node, "trunc of an integer is a float in PostgreSQL", "leave it out")
    if term.type.name != "numeric":
        scope.refuse(node, f"trunc of {term.type} is not known to be exact", "cast to numeric(p,s)")
    places = 0 if decimals is None else literal_count(node, scope, decimals, 0)
    if places >= term.type.scale:
        return term
    kind = numeric(max(term.type.precision - term.type.scale + places, 1), places)
    down, up = (f"{name}({term.sql}, {places})" for name in ("floor", "ceil"))
    return cast(Term(f"(CASE WHEN {term.sql} < 0 THEN {up} ELSE {down} END)", kind), kind)
