"""Arrow's snappy and zstd, as Kafka's batches are compressed. Pure."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

_LENGTH_BYTES = 5


def snappy(block: bytes) -> bytes:
    """What a block of the raw format (google/snappy, ``format_description.txt``) holds. Raises
    ``ValueError`` or ``OSError`` for what is none."""
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=_length(block)))


def zstd(frames: BinaryIO) -> pa.NativeFile:
    """What zstd frames hold, one behind the other."""
    return pa.CompressedInputStream(frames, "zstd")


def _length(block: bytes) -> int:
    """How long it is when read: it begins with that, in groups of seven bits, the lowest first."""
    found = 0
    for shift, byte in enumerate(block[:_LENGTH_BYTES]):
        found |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return found
    raise ValueError("no block of snappy")
