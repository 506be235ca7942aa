"""Values: PostgreSQL's text form of a column value in, JSON as Debezium emits it out. Pure.

The bytes are what ``pgoutput`` and COPY send in a session with capture's settings: UTF-8,
``TimeZone=UTC``, ``DateStyle=ISO``, ``IntervalStyle=iso_8601``, ``bytea_output=hex``,
``extra_float_digits=3``. The JSON is that of Debezium 3.7 in the modes of a ``Form``, save where
Debezium loses or omits a value: ``docs/events.md`` and ``docs/event-modes.md`` list those,
``tests/unit/cdc/events/test_values_as_debezium.py`` and ``test_modes_as_debezium.py`` hold both to
it.

An encoder is total: it gives valid JSON or raises ``ProtocolError``, whatever the bytes are. It is
built once per column and called for every row, so what it costs is what a row costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cdc.events.codes import PLACEHOLDER, quoted
from cdc.events.form import OURS, Form
from cdc.events.values.binaries import binary_encoder
from cdc.events.values.containers import array_encoder, hstore_encoder, integer_array_encoder
from cdc.events.values.decimals import (
    decimal_encoder,
    double_encoder,
    money_number,
    precision_and_scale,
    variable_decimal_encoder,
)
from cdc.events.values.epochs import (
    date_number,
    date_unit,
    interval_number,
    time_number,
    time_unit,
    timestamp_number,
)
from cdc.events.values.geometry import geometry_encoder
from cdc.events.values.scalars import (
    bit_encoder,
    boolean_encoder,
    bytea_encoder,
    float_encoder,
    integer_encoder,
    money_encoder,
    numeric_column,
    numeric_encoder,
)
from cdc.events.values.text import ColumnEncoder, Encoder, quote, text_column, text_encoder
from cdc.events.values.times import (
    date_encoder,
    interval_encoder,
    time_encoder,
    timestamp_encoder,
    timestamptz_encoder,
    timetz_encoder,
)
from cdc.events.values.vectors import sparse_vector_encoder, vector_encoder
from cdc.protocol.relation import Column, TypeInfo

__all__ = [
    "TEXT_KINDS",
    "UNAVAILABLE",
    "ColumnEncoder",
    "Encoder",
    "cell_encoder",
    "column_encoder",
    "encoder",
    "has_mode",
    "is_integer",
    "is_text",
    "quote",
]

UNAVAILABLE: Final = quoted(PLACEHOLDER)

_INTEGERS: Final = frozenset({"int2", "int4", "int8", "oid"})

_BY_NAME: Final[dict[str, Callable[[str], Encoder]]] = {
    "bool": boolean_encoder,
    "float4": float_encoder,
    "float8": float_encoder,
    "numeric": numeric_encoder,
    "bytea": bytea_encoder,
    "date": date_encoder,
    "time": time_encoder,
    "timetz": timetz_encoder,
    "timestamp": timestamp_encoder,
    "interval": interval_encoder,
    "hstore": hstore_encoder,
    "vector": vector_encoder,
    "halfvec": vector_encoder,
    "sparsevec": sparse_vector_encoder,
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle"), geometry_encoder
    ),
}

_BY_NAME_AND_TYPMOD: Final[dict[str, Callable[[str, int], Encoder]]] = {
    "timestamptz": timestamptz_encoder,
    "bit": bit_encoder,
    "money": money_encoder,
    "varbit": lambda name, _longest: bit_encoder(name, 0),
}

TEXT_KINDS: Final = frozenset({"enum", "composite", "range", "multirange"})
"""Kinds of type whose values are text, whatever their base is."""


def encoder(type: TypeInfo, typmod: int, form: Form = OURS) -> Encoder | None:
    """The encoder of a column's values; ``None`` when the text is the JSON already (integers).

    ``typmod`` is the column's, or its domain's. Types without a form of their own (text kinds,
    enums, json, uuid, network addresses, ranges, composites, whatever an extension brings) are
    PostgreSQL's text as a JSON string.
    """
    if is_integer(type):
        return None
    return _encoder(type, typmod, form)


def cell_encoder(column: Column, form: Form = OURS) -> Encoder | None:
    """The encoder of a column of a table, which treats its values where they are to be."""
    each = encoder(column.type, column.typmod, form)
    if column.treatment is None or each is None:
        return each
    treat, encode = column.treatment.function(), each
    return lambda value: encode(treat(value))


def column_encoder(type: TypeInfo, typmod: int, form: Form = OURS) -> ColumnEncoder | None:
    """What ``encoder`` does, for many values of a column at once; equal to it value by value."""
    each = encoder(type, typmod, form)
    if each is None:
        return None
    if type.kind not in TEXT_KINDS and type.base == "numeric" and form.decimals == "string":
        return numeric_column(type.name)
    if is_text(type):
        return text_column(type.name)
    return lambda values: list(map(each, values))


def has_mode(base: str, form: Form) -> bool:
    """Whether values of a type, by its ``base``, are written in another way than in our form."""
    return _of_mode(base, -1, form) is not None


def is_integer(type: TypeInfo) -> bool:
    """Whether its values are JSON numbers as they come."""
    return type.kind not in TEXT_KINDS and type.base in _INTEGERS


def is_text(type: TypeInfo) -> bool:
    """Whether its values are PostgreSQL's text as a JSON string."""
    named = type.base in _INTEGERS or type.base in _BY_NAME or type.base in _BY_NAME_AND_TYPMOD
    return type.kind in TEXT_KINDS or not (named or type.element is not None)


def _encoder(type: TypeInfo, typmod: int, form: Form) -> Encoder:
    if type.kind in TEXT_KINDS:
        return text_encoder(type.name)
    if type.element is not None:
        return _array(type, type.element, typmod, form)
    if type.base in _INTEGERS:
        return integer_encoder(type.name)
    if (of_mode := _of_mode(type.base, typmod, form)) is not None:
        return of_mode
    if type.base in _BY_NAME:
        return _BY_NAME[type.base](type.base)
    if type.base in _BY_NAME_AND_TYPMOD:
        return _BY_NAME_AND_TYPMOD[type.base](type.base, typmod)
    return text_encoder(type.name)


def _array(type: TypeInfo, element: TypeInfo, typmod: int, form: Form) -> Encoder:
    """An array column's typmod is its elements', unless those are of a domain with its own."""
    of_element = _encoder(element, element.typmod if element.typmod != -1 else typmod, form)
    if element.base in _INTEGERS and element.kind not in TEXT_KINDS:
        return integer_array_encoder(type.name, of_element, flat=form.schemas)
    return array_encoder(type.name, of_element, type.delimiter.encode(), flat=form.schemas)


def _of_mode(base: str, typmod: int, form: Form) -> Encoder | None:
    """The encoder of a type that has another one in a mode which is not ours."""
    match base:
        case "date" if date_unit(form.times) is not None:
            return date_number(base)
        case "time" | "timestamp" if (unit := time_unit(base, form.times, typmod)) is not None:
            return time_number(base, unit) if base == "time" else timestamp_number(base, unit)
        case "numeric" if form.decimals == "double":
            return double_encoder(base)
        case "numeric" if form.decimals == "precise":
            digits = precision_and_scale(typmod)
            return decimal_encoder(base, digits[1]) if digits else variable_decimal_encoder(base)
        case "money" if form.decimals != "string":
            return money_number(base, typmod, precise=form.decimals == "precise")
        case "bytea" if form.binaries != OURS.binaries:
            return binary_encoder(base, form.binaries)
        case "interval" if form.intervals == "numeric":
            return interval_number(base)
        case "hstore" if form.hstores == "map":
            return hstore_encoder(base, as_map=True)
    return None
