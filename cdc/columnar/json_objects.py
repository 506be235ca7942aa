"""Columns of JSON joined to one text a row. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columnar.arrays import literal
from cdc.columnar.values import Json

_NULL: Final = b"null"
Piece = Any
"""What is joined: bytes that stand in every row, or an Arrow array with one element a row."""


def json_object(names: Sequence[bytes], cells: Sequence[Json]) -> list[Piece]:
    """The pieces of a JSON object a row; ``names`` are JSON strings."""
    pieces: list[Piece] = []
    for i, (name, json) in enumerate(zip(names, cells, strict=True)):
        pieces.append(b"%b%b:%b" % (b"," if i else b"{", name, json.lead))
        if json.cells is not None:
            pieces.append(json.cells)
        pieces.append(json.trail)
    return [*pieces, b"}"] if names else [b"{}"]


def has_null(json: Json) -> bool:
    """Whether a row of the column has null; a lead is a value's own beginning, or null's whole."""
    if json.cells is None:
        return json.lead == _NULL
    return not json.lead and bool(pc.any(pc.equal(json.cells, literal(_NULL))).as_py())


def joined(pieces: Iterable[Piece], rows: int) -> Any:
    """One array of binary. Bytes that meet are joined before."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1 and isinstance(merged[0], bytes):
        return pa.repeat(literal(merged[0]), rows)
    separator = literal(b"")
    scalars = [literal(p) if isinstance(p, bytes) else p for p in merged]
    return pc.binary_join_element_wise(*scalars, separator)
