"""What stands in front of a key or a value whose schema is in a registry. Pure.

Confluent's wire format: a zero byte, the schema's id in four bytes, and with Protobuf which message
of the schema it is, ``0`` for the first one.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from cdc.topics import FRAME_BYTES

MAGIC: Final = b"\0"
_HEAD: Final = Struct(">bI")
HEAD_BYTES: Final = FRAME_BYTES


def framed(schema_id: int, *, protobuf: bool = False) -> bytes:
    """What goes in front."""
    return _HEAD.pack(0, schema_id) + (b"\0" if protobuf else b"")


def schema_id_of(data: bytes) -> int | None:
    """The id that a key or a value begins with; None where it begins otherwise, as JSON does."""
    if not data.startswith(MAGIC) or len(data) < HEAD_BYTES:
        return None
    return int(_HEAD.unpack_from(data)[1])
