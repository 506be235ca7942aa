"""``to_char`` of dates and times, by the templates whose text depends on no setting. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from views.spark.expressions.casts import way_to_text
from views.spark.expressions.operators import operands
from views.spark.expressions.terms import Scope, Term, quote
from views.spark.expressions.times import micros_of_second
from views.types import DATE, TEXT, TIMESTAMP, TIMESTAMPTZ

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_WIDEST = 9
"""PostgreSQL fills whole names with blanks to this."""


def _year(field: str) -> Callable[[str], str]:
    """A year as it is counted in its era."""

    def sql(time: str) -> str:
        year = f"EXTRACT({field} FROM {time})"
        return f"CASE WHEN {year} > 0 THEN {year} ELSE 1 - {year} END"

    return sql


def _of(field: str) -> Callable[[str], str]:
    return lambda time: f"EXTRACT({field} FROM {time})"


_YEAR = _year("YEAR")
# What a template says: its digits, and Spark SQL of the number.
_NUMBERS: dict[str, tuple[int, Callable[[str], str]]] = {
    "YYYY": (4, _YEAR),
    "YY": (2, lambda time: f"({_YEAR(time)}) % 100"),
    "IYYY": (4, _year("YEAROFWEEK")),
    "Q": (1, _of("QUARTER")),
    "MM": (2, _of("MONTH")),
    "IW": (2, _of("WEEK")),
    "DDD": (3, _of("DOY")),
    "DD": (2, _of("DAY")),
    "D": (1, _of("DAYOFWEEK")),
    "ID": (1, _of("DAYOFWEEK_ISO")),
    "HH24": (2, _of("HOUR")),
    "HH12": (2, lambda time: f"(EXTRACT(HOUR FROM {time}) + 11) % 12 + 1"),
    "MI": (2, _of("MINUTE")),
    "SS": (2, lambda time: f"second({time})"),
    "MS": (3, lambda time: f"{micros_of_second(time)} DIV 1000"),
    "US": (6, micros_of_second),
}
_OF_DAY = ("HH24", "HH12", "MI", "SS", "MS", "US")
# Names, with the number that chooses one, and the letters of each that are shown.
_NAMES: dict[str, tuple[Sequence[str], str, int]] = {
    "MONTH": (_MONTHS, "MONTH", _WIDEST),
    "MON": (_MONTHS, "MONTH", 3),
    "DAY": (_DAYS, "DAYOFWEEK", _WIDEST),
    "DY": (_DAYS, "DAYOFWEEK", 3),
}
_NUMBER = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_NAME = "Month|MONTH|month|Mon|MON|mon|Day|DAY|day|Dy|DY|dy"
_PART = re.compile(
    r"(?P<fill>FM|fm)?(?!(?i:SSSS|IDDD))"  # longer templates, which mean something else
    rf"(?:(?P<name>{_NAME})|(?P<number>{_NUMBER}|{_NUMBER.lower()}))"
    r'|"(?P<quoted>[^"\\]*)"|(?P<mark>[^A-Za-z"\\])'
)


def to_char(node: exp.Expr, scope: Scope) -> Term:
    """A date or timestamp by a literal template of ``_NUMBERS``, ``_NAMES``, marks and quoted
    texts; ``FM`` before a part leaves its zeros and blanks out, but for parts of a second."""
    value, template = node.expressions
    (term,) = operands(node, scope, value)
    if term.type not in (DATE, TIMESTAMP):
        hint = way_to_text(term.type)
        if term.type == TIMESTAMPTZ:
            hint = "take it AT TIME ZONE 'UTC' first"
        scope.refuse(node, f"to_char of {term.type} is not known here", hint)
    if not isinstance(template, exp.Literal) or not template.is_string:
        scope.refuse(node, "the template has to be a literal")
    text, at, parts = str(template.this), 0, []
    if not text:
        scope.refuse(node, "an empty template gives NULL")
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            reason = f"the template is not known from {text[at:]!r} on"
            scope.refuse(node, reason, 'YYYY, MM, DD, HH24, MI, SS, Mon… are; letters go in "…"')
        parts.append(_part(node, scope, term, found))
        at = found.end()
    return Term(f"(CASE WHEN {term.sql} IS NOT NULL THEN concat({', '.join(parts)}) END)", TEXT)


def _part(node: exp.Expr, scope: Scope, term: Term, found: re.Match[str]) -> str:
    """Spark SQL of one part of a template, never NULL where the time is not."""
    if (name := found["name"]) is not None:
        return _named(term.sql, name, bool(found["fill"]))
    if (number := found["number"]) is None:
        return quote(found["quoted"] if found["quoted"] is not None else found["mark"])
    width, of = _NUMBERS[number.upper()]
    if term.type == DATE and number.upper() in _OF_DAY:
        scope.refuse(node, "a date has no time of day")
    width = 0 if found["fill"] and number.upper() not in ("MS", "US") else width
    return f"format_string({quote(f'%0{width}d' if width else '%d')}, {of(term.sql)})"


def _named(time: str, template: str, bare: bool) -> str:
    names, field, letters = _NAMES[template.upper()]
    shown = [name[:letters].ljust(0 if bare or letters < _WIDEST else _WIDEST) for name in names]
    if template.isupper():
        shown = [name.upper() for name in shown]
    elif template.islower():
        shown = [name.lower() for name in shown]
    return f"elt(EXTRACT({field} FROM {time}), {', '.join(map(quote, shown))})"
