"""Deletion vectors of Delta: which rows of a file are deleted, without writing the file anew. Pure.

Delta's protocol ("Deletion Vector Format"): a 64-bit RoaringBitmapArray in its portable form, in a
file that holds several of them, each with its length before it and its CRC-32 behind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

_MAGIC: Final = 1681511377
_NO_RUNS: Final = 12346
"""The cookie of a 32-bit bitmap without containers of runs."""
_FORMAT: Final = b"\x01"
_ARRAY_MOST: Final = 4096
"""Values of a container that is a list; more of them are 65,536 bits."""
_Z85: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of deletion vectors, and where in it each is, as the log names them."""

    name: str
    content: bytes
    descriptors: list[dict[str, Any]]


def vector_file(identity: UUID, vectors: Sequence[Sequence[int]]) -> VectorFile:
    """A file of a table's own folder; each of ``vectors`` are the numbers of a file's deleted rows,
    ascending, from 0."""
    content, descriptors = bytearray(_FORMAT), []
    for rows in vectors:
        bitmap = bitmap_of(rows)
        descriptors.append({
            "storageType": "u",
            "pathOrInlineDv": z85(identity.bytes),
            "offset": len(content),
            "sizeInBytes": len(bitmap),
            "cardinality": len(rows),
        })  # fmt: skip
        content += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    return VectorFile(f"deletion_vector_{identity}.bin", bytes(content), descriptors)


def bitmap_of(rows: Sequence[int]) -> bytes:
    """A RoaringBitmapArray of ascending numbers."""
    parts = [(high, list(group)) for high, group in groupby(rows, lambda row: row >> 32)]
    made = [struct.pack("<iq", _MAGIC, len(parts))]
    for high, group in parts:
        made += [struct.pack("<i", high), _bitmap([row & 0xFFFF_FFFF for row in group])]
    return b"".join(made)


def _bitmap(values: Sequence[int]) -> bytes:
    """A 32-bit bitmap: how many values each container has, where it begins, then the containers."""
    parts = [(high, list(group)) for high, group in groupby(values, lambda value: value >> 16)]
    containers = [_container([value & 0xFFFF for value in group]) for _, group in parts]
    heads = b"".join(struct.pack("<HH", high, len(group) - 1) for high, group in parts)
    offset, offsets = 8 + len(heads) + 4 * len(parts), b""
    for container in containers:
        offsets += struct.pack("<I", offset)
        offset += len(container)
    return struct.pack("<ii", _NO_RUNS, len(parts)) + heads + offsets + b"".join(containers)


def _container(values: Sequence[int]) -> bytes:
    if len(values) <= _ARRAY_MOST:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value >> 3] |= 1 << (value & 7)
    return bytes(bits)


def z85(data: bytes) -> str:
    """ZeroMQ's base 85: five characters for each four bytes."""
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        text += "".join(_Z85[number // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text
