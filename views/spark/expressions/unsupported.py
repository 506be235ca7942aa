"""What views do not know: why, and what to write instead. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp

from views.function_names import CLOCK, ROWS, VOLATILE
from views.parse.expression_parts import QUANTIFIERS

_PAGE = "see docs/sql.md for what is supported"
SUBQUERY = ("subqueries are not supported in views", "join the table")
_ASKED_OF_ROWS = "join the table; instead of NOT, LEFT JOIN it and ask its key for IS NULL"
_ROWS_OF_ONE = "keep it whole, or give its elements a table of their own"
_ELEMENTS = "of arrays tags[1], cardinality, array_to_string, = any and <> all are known"
_OBJECT = "write json_build_object('a', a, …)"
_PATTERN = "like and ilike know literal patterns; split_part, substring and strpos cut texts"
_FLOATS = "leave it to whoever reads the view"
_INSTEAD = {
    "to_char": "of dates and timestamps it is, with a template",
    "age": "a date minus a date is a number of days, extract(epoch from a - b) of times seconds",
    "to_date": "write ::date, of texts in ISO 8601",
    "to_timestamp": "write ::timestamptz, of texts in ISO 8601",
    "to_number": "write ::numeric(p,s)",
    "date": "write ::date",
    "interval": "added to a time it is: placed + interval '30 days'",
    "sign": "write case when … > 0 then 1 when … < 0 then -1 else 0 end",
    "format": "write || or concat",
    **dict.fromkeys(("ifnull", "nvl"), "write coalesce"),
    **dict.fromkeys(("instr", "locate", "charindex"), "write strpos"),
    **dict.fromkeys(("lcase", "ucase"), "write lower or upper"),
    **dict.fromkeys(("array_size", "array_join"), "write cardinality or array_to_string"),
    **dict.fromkeys(("if", "iff", "iif", "nvl2"), "write case when … then … else … end"),
    **dict.fromkeys(
        ("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
        "write extract(year from …), or another field",
    ),
    "len": "write length",
    "group_concat": "write string_agg",
    "initcap": "upper and lower are known",
    "row": _OBJECT,
    **dict.fromkeys(
        ("array_append", "array_cat", "array_contains", "array_position", "array_prepend",
         "array_remove", "array_replace", "string_to_array"),
        _ELEMENTS,
    ),
    **dict.fromkeys(ROWS, _ROWS_OF_ONE),
    **dict.fromkeys(
        ("row_to_json", "to_json", "to_jsonb"), _OBJECT
    ),
    **dict.fromkeys(
        ("regexp_replace", "regexp_match", "regexp_matches", "regexp_substr", "regexp_like"),
        _PATTERN,
    ),
    **dict.fromkeys(("power", "sqrt", "exp", "ln", "log", "sin", "cos", "degrees"), _FLOATS),
}  # fmt: skip
KNOWN = (
    "abs", "array_length", "array_to_string", "array_upper", "avg", "bool_and", "bool_or",
    "cardinality", "ceil", "coalesce", "concat", "concat_ws", "count", "date_part", "date_trunc",
    "extract", "floor", "greatest", "jsonb_array_length", "jsonb_typeof", "least",
    "left", "length", "lower", "lpad", "ltrim", "max", "md5", "min", "nullif", "position",
    "repeat", "replace", "reverse", "right", "round", "rpad", "rtrim", "split_part",
    "starts_with", "string_agg", "strpos", "substring", "sum", "to_char", "translate", "trim",
    "trunc", "upper",
)  # fmt: skip
"""Functions that are taken, for those whose names are nearly theirs."""
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.RegexpLike: _PATTERN,
    exp.RegexpILike: _PATTERN,
    exp.SimilarTo: _PATTERN,
    exp.Interval: _INSTEAD["interval"],
    exp.Tuple: "compare the columns one by one, with AND",
    exp.Collate: "it is known inside of min, max and ORDER BY of an array",
    exp.Escape: "a backslash is LIKE's escape",
}
_VOLATILE = (
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Rand,
    exp.Uuid,
    exp.CurrentUser,
    exp.SessionUser,
    exp.CurrentRole,
    exp.CurrentCatalog,
    exp.CurrentDatabase,
    exp.CurrentSchema,
)


def why(node: exp.Expr) -> tuple[str, str]:
    """The reason why a node is refused, and the way out."""
    if asked := _quantified(node):
        return asked
    name = _name(node)
    if isinstance(node, _VOLATILE) or name in VOLATILE | CLOCK:
        return "its value changes without a change of the row, so no view can keep it", ""
    if type(node).__name__.startswith("JSON") and not name:
        return "this operator on JSON is not known here", "->, ->>, #>, #>>, @> and ? are"
    if not name:
        return "is not known here", _OPERATORS.get(type(node), _PAGE)
    if name in KNOWN:
        return f"{name} takes other arguments", _INSTEAD.get(name, _PAGE)
    close = get_close_matches(name, KNOWN, 1, 0.8)
    meant = f"did you mean {close[0]}? Otherwise {_PAGE}" if close else _PAGE
    return f"the function {name} is not known to agree in Spark", _INSTEAD.get(name, meant)


def _quantified(node: exp.Expr) -> tuple[str, str] | None:
    """Of IN, EXISTS, ANY and ALL, where they are no list of values."""
    is_of_elements = isinstance(node, exp.Any | exp.All) or _name(node) in QUANTIFIERS
    if isinstance(node, exp.Exists | exp.In) or (is_of_elements and node.find(exp.Query)):
        return SUBQUERY[0], _ASKED_OF_ROWS
    if is_of_elements:
        return "elements of arrays are compared by = any and <> all only", ""
    return None


def _name(node: exp.Expr) -> str:
    """What PostgreSQL calls the function; "" of anything else."""
    if not isinstance(node, exp.Func):
        return ""
    found = re.match(r"([a-z_][a-z0-9_.]*)\(", node.sql("postgres").lower())
    return found[1] if found else ""
