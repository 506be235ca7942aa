"""Arrow's codecs in place of the packages that Kafka's client wants."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pytest

from cdc.columnar.codecs import snappy, zstd


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_what_was_compressed_is_what_is_read(size: int) -> None:
    data = b"".join(b"%d " % i for i in range(size // 2 + 1))[:size]
    assert snappy(pa.Codec("snappy").compress(data, asbytes=True)) == data
    frame = pa.Codec("zstd").compress(data, asbytes=True)
    with zstd(BytesIO(frame + frame)) as both:
        assert both.read() == data + data


@pytest.mark.parametrize("block", [b"", b"\xff" * 9, b"\x05\xf0"])
def test_a_block_that_is_none_is_an_error(block: bytes) -> None:
    with pytest.raises((ValueError, OSError)):
        snappy(block)
