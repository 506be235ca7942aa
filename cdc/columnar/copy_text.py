"""COPY's text format as columns: where each field stands, what is NULL, escapes undone. Pure.

Inside a field tab and newline are always escaped, so a byte of either kind ends a field. A field
that is ``\\N`` is NULL; ``\\b \\f \\n \\r \\t \\v \\\\`` are all other sequences that COPY TO
writes.
https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from cdc.columnar.arrays import Bytes, Ints, Mask
from cdc.columnar.tuples import Bounds, Column, columns_of
from cdc.errors import ProtocolError
from cdc.protocol.messages import Values

_TAB, _NEWLINE, _BACKSLASH, _N = b"\t\n\\N"
_MEANING: Final = np.arange(256, dtype=np.uint8)
"""What stands for a byte behind a backslash."""
_MEANING[list(b"bfnrtv")] = list(b"\b\f\n\r\t\v")
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED: Final = {b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r"}
_SPECIAL: Final = re.compile(rb"[\\\t\n\r]")


def copied_columns(text: bytes, rows: int, width: int) -> list[Column]:
    """The columns of ``rows`` lines, each with its newline, of ``width`` fields.

    Raises ``ProtocolError`` when the lines are not of that width.
    """
    data: Bytes = np.frombuffer(text, np.uint8)
    ends = _field_ends(data)
    fields = max(1, width)
    if len(ends) != rows * fields or not (data[ends[fields - 1 :: fields]] == _NEWLINE).all():
        raise ProtocolError(f"COPY sent {len(ends)} fields in {rows} rows of {width} columns")
    if not width:
        return []
    begins = np.append(0, ends[:-1] + 1)
    bounds: Bounds = np.empty((rows, 2 * width), np.int32)
    bounds[:, 0::2], bounds[:, 1::2] = begins.reshape(rows, width), ends.reshape(rows, width)
    if b"\\" not in text:
        return columns_of(text, bounds, [None] * width, [None] * width)
    nulls = _nulls(data, begins, ends)
    present = [~mask for mask in nulls.reshape(rows, width).T]
    if np.count_nonzero(data == _BACKSLASH) > nulls.sum():
        data, bounds = _unescaped(data, bounds)
    return columns_of(data, bounds, present, [None] * width)


def copied_rows(text: bytes, width: int) -> Iterator[Values]:
    """The rows one after the other, for lines that are too long to be taken as columns.

    Raises ``ProtocolError`` for a line of another width.
    """
    for line in text.removesuffix(b"\n").split(b"\n"):
        fields = line.split(b"\t") if line or width else []
        if len(fields) != width:
            raise ProtocolError(f"COPY sent {len(fields)} fields in a row of {width} columns")
        yield [None if field == b"\\N" else _ESCAPE.sub(_meant, field) for field in fields]


def treated_lines(text: bytes, treat: Mapping[int, Callable[[bytes], bytes]]) -> bytes:
    """The same lines, with the fields of some columns, which are told by their places, as ``treat``
    makes them. NULL stays."""
    lines = []
    for line in text.removesuffix(b"\n").split(b"\n"):
        fields = line.split(b"\t")
        for at, treatment in treat.items():
            if fields[at] != b"\\N":
                value = treatment(_ESCAPE.sub(_meant, fields[at]))
                fields[at] = _SPECIAL.sub(_escaped, value)
        lines.append(b"\t".join(fields))
    return b"\n".join([*lines, b""])


def _escaped(special: re.Match[bytes]) -> bytes:
    return _ESCAPED[special[0]]


def _meant(escape: re.Match[bytes]) -> bytes:
    return bytes([_MEANING[escape[1][0]]])


def _field_ends(data: Bytes) -> Ints:
    """Where tabs and newlines stand. Few other bytes are as small, so one comparison finds them
    nearly alone."""
    small = np.flatnonzero(data <= _NEWLINE)
    return small[data[small] >= _TAB]


def _nulls(data: Bytes, begins: Ints, ends: Ints) -> Mask:
    """Which fields are ``\\N``; behind the last of them there is a newline at least."""
    found: Mask = ends - begins == 2
    at = begins[found]
    found[found] = (data[at] == _BACKSLASH) & (data[at + 1] == _N)
    return found


def _unescaped(data: Bytes, bounds: Bounds) -> tuple[Bytes, Bounds]:
    """The same fields without their escapes.

    In a run of backslashes the first, third, ... begin a sequence: none begins before its field.
    """
    marks = np.flatnonzero(data == _BACKSLASH)
    begins_run = np.diff(marks, prepend=-2) != 1
    at = np.arange(len(marks))
    in_run = at - np.maximum.accumulate(np.where(begins_run, at, 0))
    escapes = marks[in_run % 2 == 0]
    kept = np.ones(len(data), np.bool_)
    kept[escapes] = False
    meant = data.copy()
    meant[escapes + 1] = _MEANING[data[escapes + 1]]
    before = np.searchsorted(escapes, bounds.ravel()).astype(np.int32)
    return meant[kept], bounds - before.reshape(bounds.shape)
