"""Numbers in groups of seven bits, the lowest first, as Avro and Protobuf have them. Pure."""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Of a number that is not negative, below 2**64."""
    if number < 0x80:
        return bytes((number,))
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def zigzag(number: int) -> bytes:
    """Of a number of 64 bits with a sign."""
    return varint((number << 1 ^ number >> 63) & _MASK)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where the next byte stands. Raises ``IndexError`` at the data's end."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """As ``read_varint``, with a sign."""
    number, at = read_varint(data, at)
    return number >> 1 ^ -(number & 1), at
