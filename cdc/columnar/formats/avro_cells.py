"""Columns of values as Avro's encoding: ``cdc.events.formats.avro_writer`` for many rows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import orjson
import pyarrow.compute as pc

from cdc.columnar.arrays import (
    Bytes,
    Ints,
    Mask,
    binary,
    booleans,
    data_of,
    from_parts,
    literal,
    sizes_of,
)
from cdc.columnar.formats.contents import Content, Fixed, Numbers, Octets
from cdc.columnar.json_objects import Piece, joined
from cdc.columnar.tuples import Column
from cdc.events.formats.avro_writer import NULL, PRESENT, Write, value_writer
from cdc.events.formats.varints import varint
from cdc.events.schemas.schema import Schema

_MORE: Final = 0x80
"""Of a byte that others follow."""
_LAST: Final = 0x7F
Cells = Callable[[Column, "Content | None"], "list[Piece] | None"]
"""From a column and the content of its values that are present (None without any) to what stands in
a record. None where a row has null and the schema lets none by."""


def cells_of(schema: Schema, placeholder: bytes) -> Cells:
    """The encoder of a column; ``placeholder`` is the JSON of what was left alone."""
    write = value_writer(schema.as_optional(False))
    lead = PRESENT if schema.optional else b""
    stand_in = orjson.loads(placeholder)
    unsent = _one(stand_in, write, lead)

    def encode(column: Column, content: Content | None) -> list[Piece] | None:
        present, unchanged = column.present, column.unchanged
        if not schema.optional and not _all_there(column, stands_in=stand_in is not None):
            return None
        if unchanged is not None:
            return _with_unchanged(column, content, write, lead, unsent)
        if content is None:
            return [NULL]
        return _pieces(content, write, lead, present)

    return encode


def _all_there(column: Column, *, stands_in: bool) -> bool:
    """Whether no row has null; ``stands_in``: what was left alone is something else."""
    present, unchanged = column.present, column.unchanged
    if present is None:
        return True
    return stands_in and unchanged is not None and bool((present | unchanged).all())


def _with_unchanged(
    column: Column, content: Content | None, write: Write, lead: bytes, unsent: bytes
) -> list[Piece] | None:
    assert column.unchanged is not None
    assert column.present is not None
    others = pc.if_else(booleans(column.unchanged), literal(unsent), literal(NULL))
    if content is None:
        return [others]
    pieces = _pieces(content, write, lead, None)
    if pieces is None:
        return None
    cells = joined(pieces, int(column.present.sum()))
    return [pc.replace_with_mask(others, booleans(column.present), cells)]


def _pieces(
    content: Content, write: Write, lead: bytes, present: Mask | None
) -> list[Piece] | None:
    if isinstance(content, Numbers):
        return [numbers(content.values, lead, present)]
    if isinstance(content, Octets):
        return [numbers(sizes_of(content.values), lead, present), _spread(content.values, present)]
    if isinstance(content, Fixed):
        return [_flat(content.cells, None, lead, present)]
    if not lead and None in content.values:
        return None
    cells = binary([_one(value, write, lead) for value in content.values])
    if present is None:
        return [cells]
    return [_flat_from(cells, present)]


def _one(value: Any, write: Write, lead: bytes) -> bytes:
    return NULL if value is None else lead + write(value)


def numbers(values: Ints, lead: bytes = b"", present: Mask | None = None) -> Piece:
    """Each number behind ``lead``, zigzag in groups of seven bits; ``NULL`` in rows that are not
    ``present``. The same bytes for all where all are the same number."""
    coded = (values << 1 ^ values >> 63).view(np.uint64)
    least, most = (int(coded.min()), int(coded.max())) if len(coded) else (0, 0)
    if present is None and least == most and len(coded):
        return lead + varint(most)
    width, narrowest = _width(most), _width(least)
    cells = np.empty((len(values), width), np.uint8)
    for at in range(width):
        group = coded >> np.uint64(7 * at) if at else coded
        cells[:, at] = group.astype(np.uint8) | np.uint8(_MORE)
    if width == narrowest:
        cells[:, -1] &= np.uint8(_LAST)
        return _flat(cells, None, lead, present)
    size = np.full(len(values), narrowest)
    for at in range(narrowest, width):
        size += coded >= np.uint64(1 << 7 * at)
    cells[np.arange(len(values)), size - 1] &= np.uint8(_LAST)
    return _flat(cells, size, lead, present)


def _width(number: int) -> int:
    """Groups of seven bits that it takes."""
    return max(1, (number.bit_length() + 6) // 7)


def _flat(cells: Bytes, size: Ints | None, lead: bytes, present: Mask | None) -> Any:
    """The first ``size`` bytes of each line (None: the whole line) behind ``lead``, as an array."""
    whole = cells
    rows, width = len(cells) if present is None else len(present), cells.shape[1] + len(lead)
    if lead or present is not None:
        whole = np.zeros((rows, width), np.uint8)
        on: Any = slice(None) if present is None else present
        whole[on, : len(lead)] = np.frombuffer(lead, np.uint8)
        whole[on, len(lead) :] = cells
    if size is None and present is None:
        return from_parts(np.arange(0, rows * width + 1, width), whole.ravel())
    sizes = np.ones(rows, np.int64)
    of = cells.shape[1] if size is None else size
    sizes[slice(None) if present is None else present] = of + len(lead)
    kept = np.arange(width) < sizes[:, None]
    return from_parts(np.append(0, np.cumsum(sizes)), whole[kept])


def _spread(values: Any, present: Mask | None) -> Any:
    """The same values, and nothing in rows that are not ``present``."""
    if present is None:
        return values
    sizes = np.zeros(len(present), np.int64)
    sizes[present] = sizes_of(values)
    return from_parts(np.append(0, np.cumsum(sizes)), data_of(values))


def _flat_from(cells: Any, present: Mask) -> Any:
    """``NULL`` in rows that are not ``present``."""
    nulls = pc.if_else(booleans(present), literal(b""), literal(NULL))
    return pc.binary_join_element_wise(_spread(cells, present), nulls, literal(b""))
