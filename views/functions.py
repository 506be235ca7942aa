"""Functions of view expressions that were found equal in PostgreSQL and Spark. Pure.

Upper and lower case follow Unicode; a database whose collation maps case otherwise (``C``,
Turkish) differs beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from views.arithmetic import absolute
from views.casts import check_digits, to_text, way_to_text
from views.operators import operands
from views.terms import Scope, Term, adopt, cast, family, quote, readable
from views.types import BOOL, DATE, FLOATS, INT4, INTEGERS, TEXT, TIMESTAMP, UNKNOWN, numeric

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


def _count(node: exp.Expr, scope: Scope, part: exp.Expr | None, least: int, lowest: int = 0) -> int:
    """A literal integer argument; others could be negative, where the two systems differ.

    ``lowest`` is what is written where the tree has 0.
    """
    number = part.this if isinstance(part, exp.Neg) else part
    if not isinstance(number, exp.Literal) or number.is_string or not number.is_int:
        scope.refuse(node, "this has to be an integer that is written out")
    value = -int(number.this) if isinstance(part, exp.Neg) else int(number.this)
    if value < least:
        scope.refuse(node, f"{value + lowest} is below {least + lowest}")
    return value


def substring(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    start = _count(node, scope, node.args.get("start"), 1)
    if node.args.get("length") is None:
        return Term(f"substring({text}, {start})", TEXT)
    return Term(f"substring({text}, {start}, {_count(node, scope, node.args['length'], 0)})", TEXT)


def counted(name: str, argument: str, least: int) -> Handler:
    """A text and a literal count: LEFT, RIGHT, REPEAT."""

    def handle(node: exp.Expr, scope: Scope) -> Term:
        (text,) = texts(node, scope, node.this)
        return Term(f"{name}({text}, {_count(node, scope, node.args.get(argument), least)})", TEXT)

    return handle


def pad(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    fill = texts(node, scope, node.args.get("fill_pattern")) or [quote(" ")]
    width = _count(node, scope, node.expression, 0)
    name = "lpad" if node.args.get("is_left") else "rpad"
    return Term(f"{name}({text}, {width}, {fill[0]})", TEXT)


def trim(node: exp.Expr, scope: Scope) -> Term:
    (text,) = texts(node, scope, node.this)
    side = str(node.args.get("position") or "BOTH").upper()
    characters = texts(node, scope, node.args.get("expression")) or [quote(" ")]
    return Term(f"trim({side} {characters[0]} FROM {text})", TEXT)


def split_part(node: exp.Expr, scope: Scope) -> Term:
    text, delimiter = texts(node, scope, node.this, node.args.get("delimiter"))
    part = _count(node, scope, node.args.get("part_index"), 1)
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
        places = 0 if decimals is None else _count(node, scope, decimals, 0)
        return cast(unlimited, numeric(38, min(places, 38)))
    (term,) = operands(node, scope, node.this)
    if term.type.name == "float8" and decimals is None:
        return Term(f"rint({term.sql})", term.type)
    if term.type.name != "numeric":
        scope.refuse(node, f"round of {term.type} is not known to be exact", "cast to numeric(p,s)")
    places = 0 if decimals is None else _count(node, scope, decimals, 0)
    if places >= term.type.scale:
        return term
    kind = numeric(min(term.type.precision - term.type.scale + places + 1, 38), places)
    return cast(Term(f"round({term.sql}, {places})", kind), kind)


_FIELDS = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAY": "DAY",
    "DOY": "DOY",
    "ISODOW": "DAYOFWEEK_ISO",
    "ISOYEAR": "YEAROFWEEK",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}


def extract(node: exp.Expr, scope: Scope) -> Term:
    """EXTRACT of a date or timestamp: numeric in PostgreSQL, of scale 6 for seconds."""
    unit = str(node.this.name).upper()
    (term,) = operands(node, scope, node.expression)
    if term.type not in (DATE, TIMESTAMP):
        hint = "take it AT TIME ZONE 'UTC' first" if term.type.name == "timestamptz" else ""
        scope.refuse(node, f"extract from {term.type}", hint)
    if term.type == DATE and unit in ("HOUR", "MINUTE", "SECOND"):
        scope.refuse(node, "a date has no time of day")
    if unit == "DOW":
        return cast(Term(f"(EXTRACT(DAYOFWEEK FROM {term.sql}) - 1)", INT4), numeric(10, 0))
    if unit == "EPOCH":
        micros = f"unix_micros(CAST({term.sql} AS timestamp))"
        exact = f"CAST({micros} AS decimal(19,0)) * CAST('0.000001' AS decimal(7,6))"
        kind = numeric(25, 0 if term.type == DATE else 6)
        return cast(Term(f"({exact})", kind), kind)
    if unit not in _FIELDS:
        scope.refuse(node, f"the field {unit.lower()} is not known to agree")
    kind = numeric(8, 6) if unit == "SECOND" else numeric(10, 0)
    sql = f"EXTRACT({_FIELDS[unit]} FROM {term.sql})"
    if unit in ("YEAR", "ISOYEAR"):  # PostgreSQL has no year 0: the one before 1 is -1
        sql = f"({sql} - CASE WHEN {sql} > 0 THEN 0 ELSE 1 END)"
    return cast(Term(sql, kind), kind)


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def date_trunc(node: exp.Expr, scope: Scope) -> Term:
    unit = str(node.args["unit"].name).upper()
    (term,) = operands(node, scope, node.this)
    if term.type != TIMESTAMP:
        hint = "write ::timestamp, or AT TIME ZONE 'UTC' for timestamptz"
        scope.refuse(node, f"date_trunc of {term.type} depends on the session's TimeZone", hint)
    if unit not in _UNITS:
        scope.refuse(node, f"the unit {unit.lower()} is not known to agree")
    return cast(Term(f"date_trunc('{unit}', CAST({term.sql} AS timestamp))", TIMESTAMP), TIMESTAMP)


def at_time_zone(node: exp.Expr, scope: Scope) -> Term:
    """Between timestamp and timestamptz, in UTC only: zone rules differ between the two."""
    zone = node.args.get("zone")
    if not isinstance(zone, exp.Literal) or str(zone.this).upper() != "UTC":
        scope.refuse(node, "only AT TIME ZONE 'UTC' is known to agree")
    term = scope.compile(node.this)
    if term.type.name not in ("timestamp", "timestamptz") or term.type == UNKNOWN:
        scope.refuse(node, f"AT TIME ZONE of {term.type}")
    swapped = "timestamptz" if term.type == TIMESTAMP else "timestamp"
    return cast(term, TIMESTAMP._replace(name=swapped))


def element(node: exp.Expr, scope: Scope) -> Term:
    """``array[n]`` with a literal n; NULL outside the array in both systems."""
    term = scope.compile(node.this)
    if term.type.name != "array" or len(node.expressions) != 1:
        hint = "write -> 'name'" if term.type.name == "jsonb" else ""
        scope.refuse(node, f"a subscript of {term.type}", hint)
    index = _count(node, scope, node.expressions[0], 0, 1) + 1  # sqlglot counts from 0
    return Term(f"try_element_at({term.sql}, {index})", term.type.item)
