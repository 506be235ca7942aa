"""Dates and times in view expressions: fields, beginnings, zones, intervals. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.expression_parts import unwrapped
from views.spark.expressions.operators import operands
from views.spark.expressions.terms import Scope, Term, cast
from views.types import (
    DATE,
    FLOAT8,
    INT4,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    PgType,
    numeric,
)

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
    if unit == "EPOCH" and (lasted := _lasted(node, scope)) is not None:
        return lasted
    return _field(node, scope, unit, node.expression)


def date_part(node: exp.Expr, scope: Scope) -> Term:
    """What EXTRACT gives, as float8: PostgreSQL adds and divides floats here, and so does this."""
    unit, part = node.expressions
    if not isinstance(unit, exp.Literal) or not unit.is_string or not str(unit.this).isascii():
        scope.refuse(node, "the field has to be a literal")
    name = str(unit.this).upper()
    found = _field(node, scope, name, part)
    (term,) = operands(node, scope, part)
    if name == "SECOND":
        whole, rest = f"CAST(second({term.sql}) AS double)", micros_of_second(term.sql)
        return Term(f"({whole} + CAST({rest} AS double) / 1000000D)", FLOAT8)
    if name == "EPOCH":
        return Term(f"(CAST({_micros(term)} AS double) / 1000000D)", FLOAT8)
    return cast(found, FLOAT8)


def micros_of_second(sql: str) -> str:
    """Microseconds behind the whole second of a timestamp, as an int."""
    return f"CAST(EXTRACT(SECOND FROM {sql}) % 1 * 1000000 AS int)"


def _micros(term: Term) -> str:
    return f"unix_micros(CAST({term.sql} AS timestamp))"


def _seconds(micros: str, kind: PgType) -> Term:
    exact = f"{micros} * CAST('0.000001' AS decimal(7,6))"
    return cast(Term(f"({exact})", kind), kind)


_TIMES = (DATE, TIMESTAMP, TIMESTAMPTZ)


def _lasted(node: exp.Expr, scope: Scope) -> Term | None:
    """Seconds from one time to another, ``extract(epoch from a - b)``; None of anything else."""
    part = unwrapped(node.expression)
    if not isinstance(part, exp.Sub):
        return None
    try:
        one, other = operands(part, scope, part.this, part.expression)
    except ViewError:  # no two values: an interval, or what a group has as a whole
        return None
    if one.type not in _TIMES or other.type not in _TIMES or one.type == other.type == DATE:
        return None
    if one.type != other.type:
        reason = f"seconds from {other.type} to {one.type} are not known here"
        scope.refuse(node, reason, "cast both to one type: ::timestamp")
    sides = (f"CAST({_micros(term)} AS decimal(19,0))" for term in (one, other))
    return _seconds(f"({' - '.join(sides)})", numeric(26, 6))


def _field(node: exp.Expr, scope: Scope, unit: str, part: exp.Expr) -> Term:
    (term,) = operands(node, scope, part)
    if term.type not in (DATE, TIMESTAMP) and (term.type, unit) != (TIMESTAMPTZ, "EPOCH"):
        hint = "take it AT TIME ZONE 'UTC' first" if term.type == TIMESTAMPTZ else ""
        scope.refuse(node, f"extract from {term.type}", hint)
    if term.type == DATE and unit in ("HOUR", "MINUTE", "SECOND"):
        scope.refuse(node, "a date has no time of day")
    if unit == "DOW":
        return cast(Term(f"(EXTRACT(DAYOFWEEK FROM {term.sql}) - 1)", INT4), numeric(10, 0))
    if unit == "EPOCH":
        kind = numeric(25, 0 if term.type == DATE else 6)
        return _seconds(f"CAST({_micros(term)} AS decimal(19,0))", kind)
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


class Shift(NamedTuple):
    """An interval of one unit, as it is written."""

    number: int
    unit: str


_SHIFT = re.compile(
    r"\s*([+-]?\d+)\s*(second|minute|hour|day|week|month|year|sec|min|mon)s?\s*",
    re.IGNORECASE | re.ASCII,
)
_UNIT = {"sec": "second", "min": "minute", "mon": "month"}
_MOST = {"week": 100_000, "month": 12_000, "year": 1_000}
"""Millennia, so that times near ours do not leave PostgreSQL's range; of other units a million."""


def shift_of(node: exp.Expr, scope: Scope) -> Shift | None:
    """The interval that a node writes, ``interval '1 day'`` or ``'1 day'::interval``; None of
    anything else. ``ViewError`` of one that is not known here."""
    node = unwrapped(node)
    if type(node) is exp.Cast and node.to.this == exp.DataType.Type.INTERVAL:
        text = str(node.this.this) if isinstance(node.this, exp.Literal) else ""
    elif isinstance(node, exp.Interval):
        text = f"{node.this.this}{f' {node.unit.name}' if node.unit else ''}"
    else:
        return None
    found = _SHIFT.fullmatch(text)
    if found is None:
        scope.refuse(node, "this interval is not known here", "write one unit: interval '30 days'")
    count, word = int(found[1]), found[2].lower()
    unit = _UNIT.get(word, word)
    if abs(count) > _MOST.get(unit, 1_000_000):
        scope.refuse(node, "this interval is too long")
    return Shift(count, unit)


_YEAR_MONTH = {"month": "make_ym_interval(0, {})", "year": "make_ym_interval({}, 0)"}
_DAY_TIME = {
    "second": "make_dt_interval(0, 0, 0, {})",
    "minute": "make_dt_interval(0, 0, {}, 0)",
    "hour": "make_dt_interval(0, {}, 0, 0)",
    "day": "make_dt_interval({}, 0, 0, 0)",
}


def moved(node: exp.Expr, scope: Scope, time: Term, by: Shift) -> Term:
    """A time plus or minus an interval. Of months both systems take the last day where the day is
    not there."""
    if time.type not in (DATE, TIMESTAMP, TIMESTAMPTZ):
        scope.refuse(node, f"an interval is not added to {time.type} here")
    number, unit = (by.number * 7, "day") if by.unit == "week" else by
    if time.type == TIMESTAMPTZ and unit not in ("second", "minute", "hour"):
        reason = f"a {by.unit} later depends on the session's TimeZone"
        scope.refuse(node, reason, "write AT TIME ZONE 'UTC' + …, or add hours")
    if time.type == DATE:
        time = cast(time, TIMESTAMP)
    number = -number if isinstance(node, exp.Sub) else number
    interval = (_DAY_TIME | _YEAR_MONTH)[unit].format(number)
    return Term(f"({time.sql} + {interval})", time.type)
