"""SQL that writes a value as it stands in a document (``jobs.sinks.documents``). Pure.

Numerics and what views hold as text are JSON strings, times have six digits of a second, floats a
point or an exponent, infinities and NaN are strings, binary is base64. Expressions are NULL for
NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cdc.protocol.relation import TypeInfo
from jobs.sinks.postgres.quoting import ident, literal
from jobs.state.values.event_texts import event_text, is_bare
from jobs.state.values.geometry_texts import base64
from views.types import FLOATS, INTEGERS, PgType

_QUOTE: Final = "'\"'"
_FIRST_DAY, _NEXT_DAY = "0001-01-01", "10000-01-01"
"""Between them dates have years of four digits."""
_ARRAYS_AS_THEY_ARE: Final = frozenset((*INTEGERS, "bool", "text", "varchar", "uuid", "enum"))
"""Elements that PostgreSQL's own JSON writes in the same way; oid is a string there."""

_ARGUMENTS: Final = 90
"""A function of PostgreSQL takes 100 at most."""
_READ: Final = frozenset(
    (
        *(*INTEGERS, *FLOATS, "numeric", "bool", "date", "timestamp", "timestamptz", "bytea"),
        *("interval", "time", "timetz", "money", "uuid", "json"),
    )
)
"""Types of fields that are read out of JSON; others are the text that stands there."""


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
    if form.kind.name == "struct":
        return _object(form, value)
    if form.kind.name == "array":
        return _objects(form, value) if form.kind.element == "struct" else _array(form, value)
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
    if element is None:
        return in_list(form, value, json_form)
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


def _object(form: Form, value: str) -> str:
    """A row that a view nests: its values in the forms of their types, whatever JSON made them."""
    made = f"select {_pairs(form.kind)} from {record(form, value)}"
    return f"case when {is_object(form, value)} then ({made}) end"


def _objects(form: Form, value: str) -> str:
    there = f"{value} is not null"
    if form.element is None:
        there = f"{form.base}_typeof({value}) = 'array'"
    one = f"case when {is_object(form, 'e.v')} then {_pairs(form.kind)} else 'null' end"
    items = f"coalesce(string_agg({one}, ',' order by e.o), '')"
    return f"case when {there} then (select '[' || {items} || ']' from {records(form, value)}) end"


def is_object(form: Form, value: str) -> str:
    """Whether a value, of JSON or an element of an array of it, is an object."""
    return f"{_json_base(form)}_typeof({value}) = 'object'"


def _json_base(form: Form) -> str:
    return form.base if form.element is None else form.element.base


def record(form: Form, value: str) -> str:
    """A relation ``r`` of the fields of an object."""
    columns = ", ".join(f"{ident(name)} {base}" for name, base in _read(form))
    return f"{_json_base(form)}_to_record({value}) as r({columns})"


def records(form: Form, value: str) -> str:
    """A relation of the elements ``e.v`` of an array and their numbers ``e.o``, and beside each
    object ``r`` of its fields."""
    of = "unnest" if form.element is not None else f"{form.base}_array_elements"
    some = f"case when {is_object(form, 'e.v')} then e.v end"
    return f"{of}({value}) with ordinality e(v, o) left join lateral {record(form, some)} on true"


def in_list(form: Form, value: str, write: Callable[[Form, str], str]) -> str:
    """What ``write`` makes of an array which JSON holds in place of one of PostgreSQL's."""
    field = _field_form(form.kind)
    assert field.element is not None, "of values, not of objects"
    some = f"case when {form.base}_typeof({value}) = 'array' then {value} end"
    read = f"json_to_record(json_build_object('v', {some})) as r(v {field.element.base}[])"
    return f"(select {write(field, 'r.v')} from {read})"


def field_forms(kind: PgType) -> list[tuple[str, Form]]:
    """The fields of an object as ``record`` reads them."""
    return [(name, _field_form(of)) for name, of in kind.fields]


def _field_form(kind: PgType) -> Form:
    if kind.name == "array" and kind.element != "struct":
        base = kind.element if kind.element in _READ else "text"
        return Form(kind, "array", element=TypeInfo(0, "pg_catalog", base, "base", base))
    if kind.name in ("struct", "array"):
        return Form(kind, "json")
    return Form(kind, kind.name if kind.name in _READ else "text")


def _read(form: Form) -> list[tuple[str, str]]:
    """Names and types of the columns that ``record`` reads."""
    read = []
    for name, field in field_forms(form.kind):
        element = field.element
        read.append((name, f"{element.base}[]" if element is not None else field.base))
    return read


def _pairs(kind: PgType) -> str:
    parts: list[str] = []
    for name, field in field_forms(kind):
        written = json_form(field, f"r.{ident(name)}")
        parts += [label(name, not parts), f"coalesce({written}, 'null')"]
    return concatenated([*parts, "'}'"])


def label(name: str, first: bool) -> str:
    """What stands before a value in an object, as a literal."""
    return text_literal(f"{'{' if first else ','}{json.dumps(name, ensure_ascii=False)}:")


def text_literal(text: str) -> str:
    """Without percent signs, by which drivers tell parameters."""
    return literal(text).replace("%", r"\x25")


def concatenated(parts: Sequence[str]) -> str:
    """Texts of which none is NULL, in one."""
    calls = (
        f"pg_catalog.concat({', '.join(parts[i : i + _ARGUMENTS])})"
        for i in range(0, len(parts), _ARGUMENTS)
    )
    return " || ".join(calls)


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
