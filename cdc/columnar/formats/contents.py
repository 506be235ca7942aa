"""Columns as values that no format has its own idea of: numbers, octets, cells of one width. Pure.

Each has a quick way for texts that look as nearly all do. Any other column is read as JSON, value
by value, which is what it means in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columnar.arrays import (
    Bytes,
    Ints,
    binary,
    data_of,
    from_parts,
    holds_only,
    literal,
    sizes_of,
    texts_of,
)
from cdc.columnar.tuples import Column
from cdc.columnar.values import column_to_json, is_finite, whole_characters
from cdc.events.form import Form
from cdc.events.formats.avro_schema import DECIMAL
from cdc.events.formats.json_values import json_value
from cdc.events.keys.exactness import Note
from cdc.events.schemas.column_schema import type_schema
from cdc.events.schemas.schema import Schema
from cdc.events.values.encoder import TEXT_KINDS, is_integer, is_text
from cdc.events.values.epochs import date_unit, time_unit
from cdc.protocol import relation
from cdc.protocol.relation import TypeInfo


class Numbers(NamedTuple):
    """Integers of 64 bits."""

    values: Ints


class Octets(NamedTuple):
    """Bytes or UTF-8 of any length: an Arrow array of binary that is no slice."""

    values: Any


class Fixed(NamedTuple):
    """One line of bytes a value."""

    cells: Bytes


class Values(NamedTuple):
    """What JSON has, None for null."""

    values: list[Any]


Content = Numbers | Octets | Fixed | Values
Read = Callable[[Any], Content]
"""From an Arrow array of texts, none of them NULL. Raises ``ProtocolError``."""
Quick = Callable[[Any], "Content | None"]

_MICROS: Final = 10**6
_DAY: Final = b"1970-01-01 "
_LARGEST: Final = 1 << 62
_DIGITS: Final = 18
"""That many fit into 64 bits."""
_OF_INTEGER: Final = b"0123456789-"
_OF_MOMENT: Final = b"0123456789-: ."
_OF_DECIMAL: Final = b"0123456789.-"


def contents_of(column: relation.Column, form: Form, note: Note | None = None) -> Read:
    """The reader of a column of a table, which treats its values where they are to be."""
    read = _typed(column.type, column.typmod, form, note)
    if column.treatment is None:
        return read
    treat = column.treatment.function()
    return lambda values: read(binary(list(map(treat, texts_of(values)))))


def _typed(type: TypeInfo, typmod: int, form: Form, note: Note | None) -> Read:
    quick, slow = _quick(type, typmod, form), _slow(type, typmod, form, note)
    if quick is None:
        return slow
    way = quick

    def read(values: Any) -> Content:
        try:
            return way(values) or slow(values)
        except pa.ArrowInvalid:
            return slow(values)

    return read


def _slow(type: TypeInfo, typmod: int, form: Form, note: Note | None) -> Read:
    to_json = column_to_json(type, typmod, form, note=note)
    is_string = type_schema(type, typmod, form).type == "string"

    def read(values: Any) -> Content:
        lead, cells, trail = to_json(Column(values, None, None))
        if is_string and lead == b'"':  # the quick ways of columns.values: nothing is escaped
            return Octets(_followed(cells, trail[:-1]))
        return Values(json_value(b"[" + b",".join(texts_of(cells)) + b"]"))

    return read


def _followed(cells: Any, trail: bytes) -> Any:
    if not trail:
        return cells
    return pc.binary_join_element_wise(cells, literal(trail), literal(b""))


def _quick(type: TypeInfo, typmod: int, form: Form) -> Quick | None:
    if is_text(type):
        return _text
    if is_integer(type):
        return _integer
    if type.kind in TEXT_KINDS or type.element is not None:
        return None
    schema = type_schema(type, typmod, form)
    match type.base:
        case "bool":
            return _boolean
        case "float4" | "float8":
            width = "<f4" if type.base == "float4" else "<f8"
            return lambda values: _float(values, width)
        case "numeric" if schema.name == DECIMAL:
            return _decimal_way(schema)
        case "date" if date_unit(form.times) is not None:
            return _date
        case "timestamp" | "time":
            return _moment_way(type.base, typmod, form)
    return None


def _text(values: Any) -> Content | None:
    return Octets(values) if whole_characters(values, data_of(values)) else None


def _int64(values: Any, of: Any = None) -> Ints:
    made = pc.cast(pc.cast(values, pa.string()), of or pa.int64())
    _, data = made.buffers()
    return np.frombuffer(data, np.int64)[: len(made)]


def _integer(values: Any) -> Content | None:
    return Numbers(_int64(values)) if holds_only(data_of(values), _OF_INTEGER) else None


def _boolean(values: Any) -> Content | None:
    data = data_of(values)
    true = data == ord("t")
    if len(data) != len(values) or not (true | (data == ord("f"))).all():
        return None
    return Fixed(true.astype(np.uint8)[:, None])


def _float(values: Any, width: str) -> Content | None:
    if not is_finite(values):
        return None
    made = pc.cast(pc.cast(values, pa.string()), pa.float64())
    _, data = made.buffers()
    numbers = np.frombuffer(data, np.float64)[: len(made)].astype(width)
    return Fixed(numbers.view(np.uint8).reshape(len(numbers), -1))


def _decimal_way(schema: Schema) -> Quick | None:
    """Numbers that all have the scale's digits behind the point."""
    given = dict(schema.parameters)
    scale = int(given["scale"])
    if not 0 <= scale <= int(given.get("connect.decimal.precision", _DIGITS + 1)) <= _DIGITS:
        return None

    def read(values: Any) -> Content | None:
        data = data_of(values)
        if not holds_only(data, _OF_DECIMAL):
            return None
        sizes = sizes_of(values)
        if not scale:
            return Octets(octets_of(_int64(values))) if b"." not in data.tobytes() else None
        ends = np.cumsum(sizes)
        if sizes.min() < scale + 2 or (data[ends - scale - 1] != ord(".")).any():
            return None
        digits = data[data != ord(".")]
        if len(digits) != len(data) - len(values):
            return None
        edges = np.append(0, np.cumsum(sizes - 1))
        return Octets(octets_of(_int64(from_parts(edges, digits))))

    return read


def octets_of(numbers: Ints) -> Any:
    """Each number in the fewest bytes that hold it: two's complement, the highest first."""
    size = np.ones(len(numbers), np.int64)
    for more in range(1, 8):
        edge = 1 << (8 * more - 1)
        size += (numbers >= edge) | (numbers < -edge)
    cells = numbers.astype(">i8").view(np.uint8).reshape(len(numbers), 8)
    kept = np.arange(8) >= 8 - size[:, None]
    return from_parts(np.append(0, np.cumsum(size)), cells[kept])


def _date(values: Any) -> Content | None:
    if not holds_only(data_of(values), _OF_INTEGER):
        return None
    made = pc.cast(pc.cast(pc.cast(values, pa.string()), pa.date32()), pa.int32())
    _, data = made.buffers()
    return Numbers(np.frombuffer(data, np.int32)[: len(made)].astype(np.int64))


def _moment_way(base: str, typmod: int, form: Form) -> Quick | None:
    unit = time_unit(base, form.times, typmod)
    if unit is None:
        return None
    per_s = unit.per_s

    def read(values: Any) -> Content | None:
        if not holds_only(data_of(values), _OF_MOMENT):
            return None
        if base == "time":
            values = pc.binary_join_element_wise(literal(_DAY), values, literal(b""))
        micros = _int64(values, pa.timestamp("us"))
        if per_s <= _MICROS:
            return Numbers(micros // (_MICROS // per_s))
        times = per_s // _MICROS
        if np.abs(micros).max() > _LARGEST // times:
            return None
        return Numbers(micros * times)

    return read
