"""Deletion vectors as Delta's protocol has them, read by a library that knows them."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from jobs.sinks.delta.deletion_vectors import bitmap_of, vector_file, z85


def test_z85_is_that_of_zeromq() -> None:
    assert z85(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"


def test_a_file_is_byte_for_byte_delta_s_own() -> None:
    """As Delta 4.4 writes it where an UPDATE marks three rows of a file."""
    written = vector_file(UUID(int=1), [[5, 77, 99_999]]).content
    assert written.hex() == (
        "01" "0000002e" "d1d339640100000000000000" "00000000" "3a30000002000000" "00000100"
        "01000000" "18000000" "1c000000" "05004d00" "9f86" "db12efb7"
    )  # fmt: skip


def decoded(bitmap: bytes) -> list[int]:
    """The numbers of a bitmap, read as the specification of Roaring bitmaps says."""
    found, at = [], 12
    for _ in range(int.from_bytes(bitmap[4:12], "little")):
        high, at = int.from_bytes(bitmap[at : at + 4], "little"), at + 4
        begin, count = at, int.from_bytes(bitmap[at + 4 : at + 8], "little")
        heads, offsets = at + 8, at + 8 + 4 * count
        for i in range(count):
            key = int.from_bytes(bitmap[heads + 4 * i : heads + 4 * i + 2], "little")
            size = int.from_bytes(bitmap[heads + 4 * i + 2 : heads + 4 * i + 4], "little") + 1
            offset = int.from_bytes(bitmap[offsets + 4 * i : offsets + 4 * i + 4], "little")
            data, bits = bitmap[begin + offset :], size > 4096
            low = (
                [n for n in range(65536) if data[n >> 3] >> (n & 7) & 1]
                if bits
                else [int.from_bytes(data[2 * n : 2 * n + 2], "little") for n in range(size)]
            )
            assert len(low) == size
            found += [(high << 32) + (key << 16) + one for one in low]
            at = begin + offset + (8192 if bits else 2 * size)
    assert at == len(bitmap)
    return found


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 60_000])
def test_every_number_comes_back(count: int) -> None:
    rows = sorted(Random(count).sample(range(1 << 17), count))
    assert decoded(bitmap_of(rows)) == rows
    far = [5, 1 << 20, (1 << 33) + 7]
    assert decoded(bitmap_of(far)) == far


def test_a_file_has_several_and_says_where_each_is() -> None:
    file = vector_file(UUID(int=7), [[1, 2], [70_000]])
    assert file.name == f"deletion_vector_{UUID(int=7)}.bin"
    for descriptor, rows in zip(file.descriptors, ([1, 2], [70_000]), strict=True):
        at, size = descriptor["offset"], descriptor["sizeInBytes"]
        assert int.from_bytes(file.content[at : at + 4], "big") == size
        assert decoded(file.content[at + 4 : at + 4 + size]) == rows
        assert descriptor["cardinality"] == len(rows)
