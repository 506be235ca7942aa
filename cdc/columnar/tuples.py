"""Rows of one table as columns: where each value stands, then each column as an Arrow array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdc.columnar.arrays import Bytes, Ints, Mask, from_parts, integers
from cdc.columnar.frames import HEADER, Frames

_TUPLE: Final = HEADER + 6
"""Where a row's tuple begins: behind the message's kind, the relation and the tuple's kind."""
_TEXT, _NULL, _UNCHANGED = b"tnu"


Bounds = npt.NDArray[np.int32]
"""One line a row: begin and end of each value, as offsets in a buffer."""


class Column(NamedTuple):
    """Values of one column. ``values`` holds those that ``present`` marks, all of them when it is
    None; the others are NULL, or were not sent where ``unchanged`` marks them."""

    values: Any
    present: Mask | None
    unchanged: Mask | None


def read_columns(frames: Frames, rows: Ints, width: int) -> list[Column] | None:
    """The columns of the frames ``rows``, all of one table that has ``width`` columns.

    None when a row is not what it should be.
    """
    at = frames.starts[rows] + _TUPLE
    counts = frames.data[at[:, None] + np.arange(2)].view(">u2").ravel()
    if (counts != width).any():
        return None
    at = at + 2
    bounds: Bounds = np.empty((len(rows), 2 * width), np.int32)
    found: list[Bytes] = []
    limit = len(frames.buffer) - 5
    for column in range(width):
        if at.max() > limit:
            return None
        kinds = frames.data[at]
        text = kinds == _TEXT
        sizes = frames.unsigned(at + 1, 4)
        if text.all():
            begin = at + 5
            end = begin + sizes
        elif (text | (kinds == _NULL) | (kinds == _UNCHANGED)).all():
            begin = np.where(text, at + 5, at + 1)
            end = begin + np.where(text, sizes, 0)
        else:
            return None
        found.append(kinds)
        bounds[:, 2 * column] = begin
        bounds[:, 2 * column + 1] = end
        at = end
    if (at != frames.ends[rows]).any():
        return None
    present = [kind == _TEXT for kind in found]
    return columns_of(frames.buffer, bounds, present, [kind == _UNCHANGED for kind in found])


def columns_of(
    buffer: bytes | Bytes,
    bounds: Bounds,
    present: Sequence[Mask | None],
    unchanged: Sequence[Mask | None],
) -> list[Column]:
    """Columns of values that stand in ``buffer`` where ``bounds`` says. There is one mask a
    column, or None: all are present, none is unchanged.

    Values and what lies between them are one array, of which each column takes its own.
    """
    rows, edges = bounds.shape
    whole = from_parts(np.append(bounds.ravel(), np.int32(len(buffer))), buffer)
    columns = []
    for column, (there, left) in enumerate(zip(present, unchanged, strict=True)):
        chosen = np.arange(2 * column, rows * edges, edges)
        if there is None or there.all():
            columns.append(Column(whole.take(integers(chosen)), None, None))
            continue
        values = whole.take(integers(chosen[there]))
        columns.append(Column(values, there, left if left is not None and left.any() else None))
    return columns
