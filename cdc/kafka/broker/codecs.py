"""Codecs of topics for which kafka-python wants packages of their own: Arrow has them.

The client looks each up as a module, at the first batch it meets. Arrow is imported then: few
topics are compressed so, and most commands read no record at all.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from kafka import codec


class Snappy:
    """As much of the package ``python-snappy`` as the client reads with."""

    @staticmethod
    def decompress(block: bytes) -> bytes:
        from cdc.columnar.codecs import snappy

        return snappy(block)


class Zstandard:
    """As much of the package ``zstandard`` as the client reads with."""

    class ZstdDecompressor:
        def stream_reader(self, frames: BinaryIO, read_across_frames: bool) -> Any:
            from cdc.columnar.codecs import zstd

            assert read_across_frames, "Arrow does"
            return zstd(frames)


def provide() -> None:
    """Have the client read what is compressed with snappy or zstd. Its own packages come first."""
    codec.snappy = codec.snappy or Snappy
    codec.zstd = codec.zstd or Zstandard
