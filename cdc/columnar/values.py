"""Columns of PostgreSQL's text forms as columns of JSON: ``cdc.events.values`` for many rows. Pure.

Each form has a quick way for values that look as nearly all do, checked for a whole column at
once. A column with any other value goes through the encoder of ``cdc.events.values``, value by
value. So the bytes are the same, and what is malformed is refused in the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from cdc.columnar.arrays import (
    Bytes,
    binary,
    booleans,
    data_of,
    from_parts,
    holds_only,
    literal,
    offsets_of,
    sizes_of,
    texts_of,
)
from cdc.columnar.numbers import (
    date_numbers,
    doubles,
    time_numbers,
    timestamp_numbers,
    unscaled_base64,
)
from cdc.columnar.tuples import Column
from cdc.events.form import OURS, Form
from cdc.events.keys.exactness import Note
from cdc.events.schemas.placeholders import placeholder
from cdc.events.values.decimals import precision_and_scale
from cdc.events.values.encoder import (
    TEXT_KINDS,
    UNAVAILABLE,
    ColumnEncoder,
    column_encoder,
    has_mode,
    is_integer,
    is_text,
)
from cdc.events.values.epochs import time_unit
from cdc.protocol import relation
from cdc.protocol.relation import TypeInfo


class Json(NamedTuple):
    """JSON of a column: every cell stands between ``lead`` and ``trail``.

    ``cells`` is an Arrow array of binary, or None when ``lead`` is the JSON of every row.
    """

    lead: bytes
    cells: Any = None
    trail: bytes = b""


Quick = Callable[[Any], "Json | None"]
"""The quick way for an array of present values; None when one of them needs another look."""
Encode = Callable[[Column], Json]

_NULL: Final = b"null"
_FIRST_PRINTED: Final = 0x20
_FIRST_NOT_ASCII: Final = 0x80
_QUOTE, _BACKSLASH = b'"\\'
_OF_NUMERIC: Final = b"0123456789.-"
_OF_DATE: Final = b"0123456789-"
_OF_TIMESTAMP: Final = b"0123456789-: ."
_OF_TIMESTAMPTZ: Final = b"0123456789-: .+"
_DATE: Final = 10
_SECONDS: Final = 19
"""Characters of ``2024-02-29`` and of ``2024-02-29 12:34:56``."""
_ZONE: Final = len("+00")


def column_of_table(column: relation.Column, form: Form = OURS, note: Note | None = None) -> Encode:
    """The encoder of a column of a table, which treats its values where they are to be. ``note``
    looks at them where they are not what nearly all are."""
    unsent = placeholder(column, form)
    to_json = column_to_json(column.type, column.typmod, form, unsent, note)
    if column.treatment is None:
        return to_json
    treat = column.treatment.function()

    def encode(cells: Column) -> Json:
        treated = binary(list(map(treat, texts_of(cells.values))))
        return to_json(cells._replace(values=treated))

    return encode


def column_to_json(
    type: TypeInfo,
    typmod: int,
    form: Form = OURS,
    unsent: bytes = UNAVAILABLE,
    note: Note | None = None,
) -> Encode:
    """The encoder of a column of that type; ``unsent`` is the JSON of what was left alone."""
    each = column_encoder(type, typmod, form)
    if each is None:
        return lambda column: _with_nulls(Json(b"", column.values), column, unsent)
    quick, slow = _quick(type, typmod, form), each

    def encode(column: Column) -> Json:
        if not len(column.values):
            return _with_nulls(Json(b""), column, unsent)
        found = quick(column.values) if quick else None
        return _with_nulls(found or _slowly(column.values, slow, note), column, unsent)

    return encode


def _quick(type: TypeInfo, typmod: int, form: Form) -> Quick | None:
    if is_text(type):
        return _text
    if type.kind in TEXT_KINDS or type.element is not None or is_integer(type):
        return None
    if has_mode(type.base, form):
        return _quick_number(type.base, typmod, form)
    if type.base == "timestamptz":
        digits = 6 if typmod < 0 else typmod
        return lambda values: _timestamptz(values, digits)
    return _QUICK.get(type.base)


def _quick_number(base: str, typmod: int, form: Form) -> Quick | None:
    """Of a type that is written as a number in a mode."""
    if base in ("time", "timestamp"):
        unit = time_unit(base, form.times, typmod)
        assert unit is not None, "it has a mode"
        numbers = time_numbers if base == "time" else timestamp_numbers
        return lambda values: _plain(numbers(values, unit))
    match base:
        case "date":
            return lambda values: _plain(date_numbers(values))
        case "numeric" if form.decimals == "double":
            return lambda values: _plain(doubles(values))
        case "numeric" if digits := precision_and_scale(typmod):
            return lambda values: _quoted(unscaled_base64(values, *digits))
    return None


def _plain(cells: Any | None) -> Json | None:
    return None if cells is None else Json(b"", cells)


def _quoted(cells: Any | None) -> Json | None:
    return None if cells is None else Json(b'"', cells, b'"')


def _slowly(values: Any, each: ColumnEncoder, note: Note | None) -> Json:
    texts = texts_of(values)
    if note is not None:
        note(texts)
    return Json(b"", binary(each(texts)))


def _with_nulls(json: Json, column: Column, unsent: bytes) -> Json:
    present = column.present
    if present is None:
        return json
    if not len(column.values) and column.unchanged is None:
        return Json(_NULL)
    nulls: Any = pa.repeat(literal(_NULL), len(present))
    if column.unchanged is not None:
        nulls = pc.if_else(booleans(column.unchanged), literal(unsent), literal(_NULL))
        if not len(column.values):
            return Json(b"", nulls)
    cells = json.cells
    if json.lead or json.trail:
        cells = pc.binary_join_element_wise(
            literal(json.lead), cells, literal(json.trail), literal(b"")
        )
    return Json(b"", pc.replace_with_mask(nulls, booleans(present), cells))


def _text(values: Any) -> Json | None:
    data = data_of(values)
    if not whole_characters(values, data) or (len(data) and data.min() < _FIRST_PRINTED):
        return None
    if (data == _BACKSLASH).any():
        values = pc.replace_substring(values, "\\", "\\\\")
    if (data == _QUOTE).any():
        values = pc.replace_substring(values, '"', '\\"')
    return Json(b'"', values, b'"')


def whole_characters(values: Any, data: Bytes) -> bool:
    """Whether each value is UTF-8: all together are, and none begins inside of a character."""
    if not len(data) or data.max() < _FIRST_NOT_ASCII:
        return True
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    first = np.append(data, np.uint8(0))[offsets_of(values)[:-1]]
    return not ((first & 0xC0) == 0x80).any()


def _numeric(values: Any) -> Json | None:
    if _holds_empty(values) or not holds_only(data_of(values), _OF_NUMERIC):
        return None
    return Json(b'"', values, b'"')


def _boolean(values: Any) -> Json | None:
    data = data_of(values)
    true = data == ord("t")
    if len(data) != len(values) or not (true | (data == ord("f"))).all():
        return None
    return Json(b"", pc.if_else(booleans(true), literal(b"true"), literal(b"false")))


def _float(values: Any) -> Json | None:
    """Numbers as the shortest form prints them; a look at the characters would let ``1-2`` by."""
    return Json(b"", values) if is_finite(values) else None


def is_finite(values: Any) -> bool:
    """Whether all are numbers as PostgreSQL writes them, none of them infinite."""
    number = r"\A-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+][0-9]+)?\z"
    return bool(pc.all(pc.match_substring_regex(values, number)).as_py())


def _date(values: Any) -> Json | None:
    if not _all_sized(values, _DATE, _DATE) or not holds_only(data_of(values), _OF_DATE):
        return None
    return Json(b'"', values, b'Z"')


def _timestamp(values: Any) -> Json | None:
    """The space between date and time becomes a T, in place."""
    data = data_of(values)
    if not _all_sized(values, _SECONDS, _SECONDS + 7) or not holds_only(data, _OF_TIMESTAMP):
        return None
    characters = data.copy()
    starts = offsets_of(values)[:-1]
    if (characters[starts + 4] != ord("-")).any() or (characters[starts + 10] != ord(" ")).any():
        return None
    characters[starts + 10] = ord("T")
    return Json(b'"', from_parts(offsets_of(values), characters), b'Z"')


def _timestamptz(values: Any, digits: int) -> Json | None:
    """Every value becomes as long as the precision asks for, filled up with zeros."""
    data = data_of(values)
    longest = _SECONDS + _ZONE + (digits + 1 if digits else 0)
    if not _all_sized(values, _SECONDS + _ZONE, longest) or not holds_only(data, _OF_TIMESTAMPTZ):
        return None
    characters = np.append(data, np.zeros(8, np.uint8))
    offsets = offsets_of(values)
    starts, ends = offsets[:-1], offsets[1:] - _ZONE
    width = _SECONDS + (digits + 1 if digits else 0)
    cells = sliding_window_view(characters, width)[starts]
    zone = sliding_window_view(characters, _ZONE)[ends]
    if (
        (cells[:, 4] != ord("-")).any()
        or (cells[:, 10] != ord(" ")).any()
        or (zone != np.frombuffer(b"+00", np.uint8)).any()
    ):
        return None
    cells[:, 10] = ord("T")
    if digits:
        sizes = ends - starts
        if not ((sizes == _SECONDS) | (cells[:, _SECONDS] == ord("."))).all():
            return None
        cells[:, _SECONDS] = ord(".")
        for place in range(_SECONDS + 1, width):
            cells[sizes <= place, place] = ord("0")
    ruler = np.arange(0, width * (len(values) + 1), width)
    return Json(b'"', from_parts(ruler, cells), b'Z"')


_QUICK: Final[dict[str, Quick]] = {
    "numeric": _numeric,
    "bool": _boolean,
    "float4": _float,
    "float8": _float,
    "date": _date,
    "timestamp": _timestamp,
}


def _holds_empty(values: Any) -> bool:
    return bool((sizes_of(values) == 0).any())


def _all_sized(values: Any, least: int, most: int) -> bool:
    sizes = sizes_of(values)
    return bool(sizes.min() >= least and sizes.max() <= most)
