"""What COPY TO STDOUT sends in text format, as ``CopyAttributeOutText`` in copyto.c writes it."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.protocol.messages import Value

_ESCAPES = [
    (b"\\", b"\\\\"),  # first: the others bring backslashes in
    (b"\b", b"\\b"),
    (b"\f", b"\\f"),
    (b"\n", b"\\n"),
    (b"\r", b"\\r"),
    (b"\t", b"\\t"),
    (b"\v", b"\\v"),
]


def copy_line(row: Sequence[Value]) -> bytes:
    """One row with its newline."""
    fields = []
    for value in row:
        if value is None:
            fields.append(b"\\N")
            continue
        assert isinstance(value, bytes), value
        for plain, escaped in _ESCAPES:
            value = value.replace(plain, escaped)
        fields.append(value)
    return b"\t".join(fields) + b"\n"
