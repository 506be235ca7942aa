"""Arrow arrays from and to what numpy and Python hold, by their buffers.

``pyarrow.array`` and ``pyarrow.scalar`` would do, but they import pandas to ask whether they were
given something of its: 45 MB that capture has no use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

# Arrow's own allocator keeps what it has had: 20 MB more, and measured no faster here.
pa.set_memory_pool(pa.system_memory_pool())


def literal(text: bytes) -> Any:
    """A scalar: the same text in every row."""
    return binary([text])[0]


def binary(values: Sequence[bytes]) -> Any:
    """An array of these values."""
    offsets = np.fromiter(accumulate(map(len, values), initial=0), np.int32, len(values) + 1)
    return from_parts(offsets, b"".join(values))


def from_parts(offsets: npt.NDArray[Any], data: bytes | Bytes) -> Any:
    """An array over ``data``: value ``i`` from ``offsets[i]`` to ``offsets[i + 1]``."""
    whole = data if isinstance(data, bytes) else np.ascontiguousarray(data)
    edges = np.ascontiguousarray(offsets, np.int32)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(whole)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def integers(values: Ints) -> Any:
    """An array of int64."""
    whole = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def booleans(values: Mask) -> Any:
    """An array of bits."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def decimals(values: Ints) -> Any:
    """The numbers as text."""
    return pc.cast(pc.cast(integers(values), pa.string()), pa.binary())


def offsets_of(values: Any) -> Ints:
    """Where the values stand in ``data_of``, and where the last one ends."""
    _, edges, _ = values.buffers()
    first = values.offset
    return np.frombuffer(edges, np.int32)[first : first + len(values) + 1].astype(np.int64)


def sizes_of(values: Any) -> Ints:
    """Length of each value in bytes."""
    edges = offsets_of(values)
    return edges[1:] - edges[:-1]


def data_of(values: Any) -> Bytes:
    """The bytes of all values, one after the other; of an array that is not a slice."""
    _, _, data = values.buffers()
    return np.frombuffer(b"" if data is None else data, np.uint8)


def holds_only(data: Bytes, characters: bytes) -> bool:
    """Whether every byte is one of these. A table of numpy's takes nine times as long."""
    return not data.tobytes().translate(None, characters)


def texts_of(values: Any) -> list[bytes]:
    """The values as Python's bytes."""
    texts: list[bytes] = values.to_pylist()
    return texts
