"""SQL that writes a value as it stands in a document (``jobs.sinks.documents``). Pure.

Numerics and what views hold as text are JSON strings, times have six digits of a second, floats a
point or an exponent, infinities and NaN are strings, binary is base64. Expressions are NULL for
NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cdc.protocol.relation import TypeInfo
from jobs.state.event_texts import event_text, is_bare
from jobs.state.geometry_texts import base64
from views.types import FLOATS, INTEGERS, PgType

_QUOTE: Final = "'\"'"
_FIRST_DAY, _NEXT_DAY = "0001-01-01", "10000-01-01"
"""Between them dates have years of four digits."""
_ARRAYS_AS_THEY_ARE: Final = frozenset(
    (*INTEGERS, "bool", "text", "varchar", "uuid", "enum")
)
"""Elements that PostgreSQL's own JSON writes in the same way; oid is a string there."""


class Form(NamedTuple):
    """What decides how values are written: ``base`` and ``typmod`` are PostgreSQL's, ``kind`` is
    what the store's column is."""

    kind: PgType
    base: str
    typmod: int = -1
    element: TypeInfo | None = None


def form_of(kind: PgType, type_: TypeInfo, typmod: int) -> Form:
    """The form of a column's values."""
    return Form(kind, type_.base, typmod, type_.element)


def element_form(form: Form) -> Form:
    """The form of the elements of an array."""
    assert form.element is not None
    own = form.element.typmod
    return Form(form.kind.item, form.element.base, own if own != -1 else form.typmod)


def json_form(form: Form, value: str) -> str:
    """The JSON of a value, as text."""
    if form.kind.name == "array":
        return _array(form, value)
    if form.kind.spark == "string":
        text = event_text(form.base, form.typmod, value)
        return _quoted(text) if is_bare(form.base) else f"to_json({text})::text"
    if form.kind.exact:
        return _quoted(numeric_text(form.kind, value))
    return _BY_NAME.get(form.kind.name, _printed)(value)


def numeric_text(kind: PgType, value: str) -> str:
    """A numeric with as many digits behind the point as its column has."""
    return f"({value}::numeric({kind.precision},{kind.scale}))::text"


def plain_text(form: Form, value: str) -> str:
    """The text of a value that documents have as a string, without its quotes."""
    if form.kind.spark == "string":
        return event_text(form.base, form.typmod, value)
    if form.base in INTEGERS or form.base == "oid":
        return f"{value}::text"
    return f"btrim({json_form(form, value)}, {_QUOTE})"


def _quoted(text: str) -> str:
    return f"({_QUOTE} || {text} || {_QUOTE})"


def _printed(value: str) -> str:
    return f"{value}::text"


def _array(form: Form, value: str) -> str:
    element = form.element
    assert element is not None, "an array has elements"
    if element.base in _ARRAYS_AS_THEY_ARE or element.base == "array":
        return f"array_to_json({value})::text"
    items = f"coalesce(string_agg(coalesce({json_form(element_form(form), 'e.v')}, 'null'), ','"
    whole = f"select '[' || {items} order by e.o), '') || ']' from {elements(element, value)}"
    return f"case when {value} is not null then ({whole}) end"


def elements(element: TypeInfo, array: str) -> str:
    """A relation ``e`` of the elements ``v`` of an array and their numbers ``o``."""
    if element.kind in ("composite", "domain"):  # unnest would make columns of their fields
        subscripts = f"generate_subscripts({array}, 1)"
        return f"(select ({array})[i] as v, i as o from {subscripts} i) e"
    return f"unnest({array}) with ordinality e(v, o)"


def _float(value: str) -> str:
    """Zero has no sign here, and a whole number shows that it is of a float."""
    zero = f"({value} + 0)"
    return (
        f"case when {value} = trunc({value}) and abs({value}) < 1e15 then {zero}::text || '.0'"
        f" when {value} in ('NaN', 'Infinity', '-Infinity') then {_quoted(f'{value}::text')}"
        f" else {value}::text end"
    )


def _single(value: str) -> str:
    """trunc() is of eight bytes, and the text of a four-byte float is not."""
    zero = f"({value} + 0::float4)"
    return (
        f"case when {value} = trunc({value}) and abs({value}) < 1e6 then {zero}::text || '.0'"
        f" when {value} in ('NaN', 'Infinity', '-Infinity') then {_quoted(f'{value}::text')}"
        f" else {value}::text end"
    )


def _date(value: str) -> str:
    return _quoted(
        f"case when {_usual(value, 'date')} then {value}::text else {_unusual_day(value)} end"
    )


def _timestamp(value: str) -> str:
    return _quoted(_moment(value))


def _timestamptz(value: str) -> str:
    moment = _moment(f"timezone('UTC', {value})")
    return f"({_QUOTE} || {moment} || 'Z\"')"


def _moment(value: str) -> str:
    usual = f"to_char({value}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
    other = f"{_unusual_day(value)} || to_char({value}, '\"T\"HH24:MI:SS.US')"
    return f"case when {_usual(value, 'timestamp')} then {usual} else {other} end"


def _usual(value: str, kind: str) -> str:
    return f"{value} >= {kind} '{_FIRST_DAY}' and {value} < {kind} '{_NEXT_DAY}'"


def _unusual_day(value: str) -> str:
    """Years before 1 and after 9999 have a sign: 1 BC is 0000, and 12345 is +12345."""
    year = f"extract(year from {value})"
    told = (
        f"case when {year} > 9999 then '+' || {year}"
        f" when {year} < -1 then '-' || lpad((-1 - {year})::text, 4, '0')"
        f" when {year} = -1 then '0000' else lpad({year}::text, 4, '0') end"
    )
    month, day = (f"lpad(extract({part} from {value})::text, 2, '0')" for part in ("month", "day"))
    return f"{told} || '-' || {month} || '-' || {day}"


_BY_NAME: Final[dict[str, Callable[[str], str]]] = {
    "float4": _single,
    "float8": _float,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "bytea": lambda value: _quoted(base64(value)),
}
assert set(FLOATS) <= _BY_NAME.keys()
