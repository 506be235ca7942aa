"""What views do not know: why, and what to write instead. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot import exp

_PAGE = "docs/sql.md lists what is known"
SUBQUERY = ("subqueries are not supported in views", "join the table")
_ASKED_OF_ROWS = "join the table; instead of NOT, LEFT JOIN it and ask its key for IS NULL"
_ROWS_OF_ONE = "keep it whole, or give its elements a table of their own"
_ELEMENTS = "of arrays tags[1] is known: count and search where the view is read"
_OBJECT = "in views with a JOIN or GROUP BY write json_build_object('a', a, …); elsewhere not known"
_PATTERN = "like and ilike know literal patterns; split_part, substring and strpos cut texts"
_FLOATS = "leave it to whoever reads the view"
_INSTEAD = {
    "to_char": "extract(year from …) gives numbers, date_trunc('month', …) a time, ::text the ISO"
    " form: other forms are for whoever reads the view",
    "age": "a date minus a date is a number of days: write it with both dates",
    "to_date": "write ::date, of texts in ISO 8601",
    "to_timestamp": "write ::timestamptz, of texts in ISO 8601",
    "to_number": "write ::numeric(p,s)",
    "date": "write ::date",
    "interval": "add days to a date: day + 1",
    "trunc": "floor and ceil are known",
    "sign": "write case when … > 0 then 1 when … < 0 then -1 else 0 end",
    "format": "write || or concat",
    "initcap": "upper and lower are known",
    "cardinality": _ELEMENTS,
    "row": _OBJECT,
    **dict.fromkeys(("array_length", "array_upper", "array_position", "array_contains"), _ELEMENTS),
    **dict.fromkeys(("array_to_string", "string_to_array", "array_remove"), _ELEMENTS),
    **dict.fromkeys(
        ("unnest", "generate_series", "regexp_split_to_table", "jsonb_array_elements",
         "jsonb_array_elements_text", "jsonb_each", "jsonb_each_text", "jsonb_object_keys",
         "json_array_elements", "json_array_elements_text", "json_each", "json_object_keys"),
        _ROWS_OF_ONE,
    ),
    **dict.fromkeys(
        ("jsonb_build_object", "json_build_object", "row_to_json", "to_json", "to_jsonb"), _OBJECT
    ),
    **dict.fromkeys(
        ("regexp_replace", "regexp_match", "regexp_matches", "regexp_substr", "regexp_like"),
        _PATTERN,
    ),
    **dict.fromkeys(("power", "sqrt", "exp", "ln", "log", "sin", "cos", "degrees"), _FLOATS),
}  # fmt: skip
KNOWN = (
    "abs", "avg", "bool_and", "bool_or", "ceil", "coalesce", "concat", "concat_ws", "count",
    "date_trunc", "extract", "floor", "greatest", "jsonb_array_length", "jsonb_typeof", "least",
    "left", "length", "lower", "lpad", "ltrim", "max", "md5", "min", "nullif", "position",
    "repeat", "replace", "reverse", "right", "round", "rpad", "rtrim", "split_part",
    "starts_with", "string_agg", "strpos", "substring", "sum", "translate", "trim", "upper",
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
_VOLATILE_NAMES = {
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
    "random_normal",
    "nextval",
    "lastval",
    "setval",
    "uuid_generate_v4",
    "pg_backend_pid",
    "txid_current_snapshot",
    "pg_current_wal_lsn",
    "currval",
    "gen_random_uuid",
    "uuidv7",
    "txid_current",
}


def why(node: exp.Expr) -> tuple[str, str]:
    """The reason why a node is refused, and the way out."""
    if asked := _quantified(node):
        return asked
    name = _name(node)
    if isinstance(node, _VOLATILE) or name in _VOLATILE_NAMES:
        return "its value changes without a change of the row, so no view can keep it", ""
    if type(node).__name__.startswith("JSON") and not name:
        return "this operator on JSON is not known here", "->, ->>, #>, #>>, @> and ? are"
    if not name:
        return "is not known here", _OPERATORS.get(type(node), _PAGE)
    close = get_close_matches(name, KNOWN, 1, 0.8)
    meant = f"did you mean {close[0]}? Else {_PAGE}" if close else _PAGE
    return f"the function {name} is not known to agree in Spark", _INSTEAD.get(name, meant)


def _quantified(node: exp.Expr) -> tuple[str, str] | None:
    """Of IN, EXISTS, ANY and ALL, where they are no list of values."""
    is_of_elements = isinstance(node, exp.Any | exp.All) or _name(node) in ("any", "all", "some")
    if isinstance(node, exp.Exists | exp.In) or (is_of_elements and node.find(exp.Query)):
        return SUBQUERY[0], _ASKED_OF_ROWS
    if is_of_elements:
        way = _ELEMENTS if node.find(exp.Column) else "write IN (…), NOT IN for <> ALL"
        return "elements of arrays are not compared here", way
    return None


def _name(node: exp.Expr) -> str:
    """What PostgreSQL calls the function; "" of anything else."""
    if not isinstance(node, exp.Func):
        return ""
    found = re.match(r"([a-z_][a-z0-9_.]*)\(", node.sql("postgres").lower())
    return found[1] if found else ""
