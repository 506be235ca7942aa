"""Casts of view expressions: those in which PostgreSQL and Spark can be made to agree. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from views.parse.expression_parts import is_aggregate, is_json_list, unwrapped
from views.spark.expressions.json_operators import numeric_of, refusing
from views.spark.expressions.terms import Scope, Term, adopt, cast, quote, readable
from views.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    INTEGERS,
    STRINGS,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    PgType,
    array_of,
    numeric,
)

_Kind = exp.DataType.Type
_TARGETS = {
    _Kind.SMALLINT: PgType("int2"),
    _Kind.INT: INT4,
    _Kind.BIGINT: INT8,
    _Kind.FLOAT: PgType("float4"),
    _Kind.DOUBLE: FLOAT8,
    _Kind.DECIMAL: PgType("numeric"),
    _Kind.TEXT: TEXT,
    _Kind.VARCHAR: PgType("varchar"),
    _Kind.BOOLEAN: BOOL,
    _Kind.DATE: DATE,
    _Kind.TIMESTAMP: TIMESTAMP,
    _Kind.TIMESTAMPTZ: TIMESTAMPTZ,
    _Kind.UUID: PgType("uuid"),
    _Kind.JSON: PgType("json"),
    _Kind.JSONB: PgType("jsonb"),
}
_TEXT_FROM = ("uuid", "enum", "json", "jsonb", "date", "timestamp", "bool", *INTEGERS, *STRINGS)


def explicit(node: exp.Expr, scope: Scope) -> Term:
    """``x::type`` and ``CAST(x AS type)``."""
    return converted(node, node.this, node.args["to"], scope)


def converted(node: exp.Expr, part: exp.Expr, data_type: Any, scope: Scope) -> Term:
    """``part`` as a value of a type; ``node`` is what is refused where that is not known."""
    if data_type.this == _Kind.ARRAY:
        return _to_array(node, part, data_type, scope)
    target, length = _target(node, data_type, scope)
    term = scope.compile(part)
    if term.type == UNKNOWN:
        term = adopt(term, target, node, scope)
    if target.name in STRINGS:
        check_digits(part, scope)
    return _truncated(_convert(node, part, scope, term, target), length)


def element_type(data_type: Any) -> Any:
    """The type of the elements of an array type; None where it is another, or names none."""
    kinds: list[Any] = data_type.expressions if data_type.this == _Kind.ARRAY else []
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], exp.DataType) else None


def _to_array(node: exp.Expr, part: exp.Expr, data_type: Any, scope: Scope) -> Term:
    """``'{}'::text[]``, and NULL; or an array that has the type."""
    term, kind = scope.compile(part), element_type(data_type)
    if kind is not None and kind.this != _Kind.ARRAY and not is_json_list(part):
        item, length = _target(node, kind, scope)
        literal = term.type == UNKNOWN
        term = adopt(term, array_of(item), node, scope)
        if term.type == array_of(item) and (literal or not length):
            return term
    return scope.refuse(node, f"{term.type} is not cast to an array here")


def _target(node: exp.Expr, data_type: Any, scope: Scope) -> tuple[PgType, int]:
    """The target type, and the length of a ``varchar(n)`` or 0."""
    target = _TARGETS.get(data_type.this)
    sizes = [
        int(size.this.this)
        for size in data_type.expressions
        if isinstance(size, exp.DataTypeParam) and size.this.is_int
    ]
    if target is None or len(sizes) != len(data_type.expressions):
        own = data_type.this == _Kind.USERDEFINED
        hint = "write the literal alone beside an enum: it has the enum's type" if own else ""
        scope.refuse(node, "this type is not cast to here", hint)
    if target.name == "numeric" and sizes:
        limited = numeric(sizes[0], sizes[1] if len(sizes) > 1 else 0)
        if not limited.exact:
            scope.refuse(node, f"{limited} does not fit Spark's 38 digits")
        return limited, 0
    if sizes and target.name != "varchar":
        scope.refuse(node, "a length is known for varchar and numeric only")
    return target, sizes[0] if sizes else 0


# What of a text is read the same everywhere: ISO 8601, and as instants only what has a zone.
# PostgreSQL takes more forms, some of which mean what the session's settings say.
_DAY = r"(?!0000)\d{4}-\d\d-\d\d"
_CLOCK = r"[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_ZONE = r"(?:Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)"
_GUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def _in(form: str, kind: PgType) -> Callable[[str], str]:
    """Reads a text of a form, of which the first group counts; any other raises."""

    def read(sql: str) -> str:
        return f"CAST(regexp_extract({sql}, {quote(form)}, 1) AS {kind.spark})"

    return read


def _truth(sql: str) -> str:
    """PostgreSQL takes any beginning of its words, Spark some."""
    word = f"lower(trim({sql}))"
    true, false = "('tr', 'tru', 'ye', 'on')", "('fa', 'fal', 'fals', 'of', 'off')"
    said = f"WHEN {word} IN {true} THEN 'true' WHEN {word} IN {false} THEN 'false' ELSE {sql}"
    return f"CAST(CASE {said} END AS boolean)"


def _guid(sql: str) -> str:
    fits = f"lower({sql}) RLIKE {quote(f'^{_GUID}$')}"
    return f"(CASE WHEN {fits} THEN lower({sql}) WHEN {sql} IS NOT NULL THEN {refusing(sql)} END)"


_READ: dict[str, Callable[[str], str]] = {
    "bool": _truth,
    "date": _in(f"^({_DAY})(?:{_CLOCK}{_ZONE}?)?$", DATE),
    "timestamp": _in(f"^({_DAY}(?:{_CLOCK})?){_ZONE}?$", TIMESTAMP),
    "timestamptz": _in(f"^({_DAY}{_CLOCK}{_ZONE})$", TIMESTAMPTZ),
    "uuid": _guid,
}


def _truncated(term: Term, length: int) -> Term:
    return Term(f"substring({term.sql}, 1, {length})", term.type) if length else term


def _convert(node: exp.Expr, part: exp.Expr, scope: Scope, term: Term, target: PgType) -> Term:
    source = term.type
    if source == target and (source.exact or source.name != "numeric"):
        return term
    if source.name in STRINGS and target.name in _READ:
        return Term(_READ[target.name](term.sql), target)
    if target.name in STRINGS:
        return to_text(node, scope, term, target)
    if target.name == "numeric":
        return _to_numeric(node, part, scope, term, target)
    if target.name in INTEGERS:
        return _to_integer(node, scope, readable(term, node, scope), target)
    pairs = {
        ("int2", "float8"),
        ("int4", "float8"),
        ("int8", "float8"),
        ("int2", "float4"),
        ("int4", "float4"),
        ("int8", "float4"),
        ("float4", "float8"),
        ("numeric", "float8"),
        ("text", "float8"),
        ("varchar", "float8"),
        ("int4", "bool"),
        ("date", "timestamp"),
        ("timestamp", "date"),
    }
    if (source.name, target.name) not in pairs:
        _refuse(node, scope, source, target)
    return cast(term, target)


def _refuse(node: exp.Expr, scope: Scope, source: PgType, target: PgType) -> None:
    hint = ""
    if "timestamptz" in (source.name, target.name):
        hint = "write AT TIME ZONE 'UTC': the result depends on the session's TimeZone"
    if source.name in ("json", "jsonb"):
        hint = "take its text first: ->>, or #>> '{}'"
    scope.refuse(node, f"a cast from {source} to {target} is not known to be exact", hint)


def way_to_text(kind: PgType) -> str:
    """What to write instead of a value of a type: a hint, empty where no cast to text is known."""
    return "write ::text" if kind.name in _TEXT_FROM or kind.exact else ""


def to_text(node: exp.Expr, scope: Scope, term: Term, target: PgType) -> Term:
    if term.type.name == "bpchar":
        return Term(f"rtrim({term.sql})", target)
    if not way_to_text(term.type):
        _refuse(node, scope, term.type, target)
    if term.type in (DATE, TIMESTAMP):
        return Term(_dated(term.sql), target)
    return cast(term, target)


def check_digits(node: exp.Expr, scope: Scope) -> None:
    """Refuse a numeric whose digits behind the point PostgreSQL chooses value by value, where they
    become text: ``coalesce(n, 0)`` is 0 there, or 2.50."""
    if scope.compile(node).type.name == "numeric" and (part := _uneven(node, scope)) is not None:
        reason = "as text its number of decimals depends on the value"
        scope.refuse(part, reason, "cast it to numeric(p,s) before")


def _uneven(node: exp.Expr, scope: Scope) -> exp.Expr | None:
    """The part of a numeric expression that has one scale or another, if there is one."""
    node = unwrapped(node)
    if isinstance(node, exp.Case):
        branches = [branch.args["true"] for branch in node.args["ifs"]]
        values = [*branches, *([node.args["default"]] if node.args.get("default") else [])]
    elif isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        values = [node.this, *node.expressions]
    elif isinstance(node, exp.Round | exp.Trunc):
        kind, places = scope.compile(node.this).type, node.args.get("decimals")
        return node if kind.exact and places is not None and int(places.this) > kind.scale else None
    elif isinstance(node, exp.Cast | exp.Ceil | exp.Floor | exp.Extract) or is_aggregate(node):
        return None
    else:
        below = [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]
        return next((found for part in below if (found := _uneven(part, scope))), None)
    kinds = [scope.compile(value).type for value in values]
    if len({kind.scale for kind in kinds if kind != UNKNOWN}) > 1:
        return node
    return next((found for value in values if (found := _uneven(value, scope))), None)


def _dated(sql: str) -> str:
    """The text of a date or timestamp. PostgreSQL counts years before 1 as BC, and has no sign
    before those after 9999."""
    text, year = f"CAST({sql} AS string)", f"year({sql})"
    rest = f"regexp_extract({text}, '^-?[0-9]+(-.*)$', 1)"
    before = f"concat(lpad(CAST(1 - {year} AS string), 4, '0'), {rest}, ' BC')"
    return (
        f"(CASE WHEN {year} BETWEEN 1 AND 9999 THEN {text} "
        f"WHEN {year} > 9999 THEN substring({text}, 2) ELSE {before} END)"
    )


def _to_numeric(node: exp.Expr, part: exp.Expr, scope: Scope, term: Term, target: PgType) -> Term:
    """To numeric(p,s): both systems round half away from zero and refuse what does not fit."""
    source = term.type
    if not target.exact:
        if source.name in INTEGERS:
            wide = numeric({"int2": 5, "int4": 10, "int8": 19}[source.name], 0)
            return cast(term, wide)
        if source.name in STRINGS and (sql := numeric_of(part, term, scope)):
            return Term(sql, target)
        scope.refuse(node, "numeric without limits cannot be held exactly", "write ::numeric(p,s)")
    if source.name == "numeric" or source.name in (*INTEGERS, *STRINGS):
        return cast(term, target)
    return scope.refuse(node, f"a cast from {source} to {target} is not known to be exact")


def _to_integer(node: exp.Expr, scope: Scope, term: Term, target: PgType) -> Term:
    source = term.type
    if source.name in ("float4", "float8"):  # to the nearest, halves to even
        return cast(Term(f"rint(CAST({term.sql} AS double))", FLOAT8), target)
    if source.name == "numeric":  # to the nearest, halves away from zero
        return cast(Term(f"round({term.sql}, 0)", source), target)
    if source.name in (*INTEGERS, *STRINGS) or (source == BOOL and target == INT4):
        return cast(term, target)
    _refuse(node, scope, source, target)
    return term
