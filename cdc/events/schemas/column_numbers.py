"""The numbers of a table's columns, for formats that tell fields by them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from cdc.protocol.relation import Column

FIRST_BY_NAME: Final = 20_001
"""Above each attnum, and above what Protobuf keeps for itself (19,000 to 19,999)."""
_LAST: Final = (1 << 29) - 1
"""Protobuf's."""


def column_numbers(columns: Sequence[Column]) -> tuple[int, ...]:
    """The attnum of each, which no other column of the table ever gets. Of a version of which they
    are not certain (``cdc.source.attribute_numbers``) numbers made of the names, where no attnum
    is: what a reader takes for another version's column is that column."""
    found: list[int] = []
    for column in columns:
        number = column.attnum or _by_name(column.name)
        while number in found:
            number = number + 1 if number < _LAST else FIRST_BY_NAME
        found.append(number)
    return tuple(found)


def _by_name(name: str) -> int:
    return FIRST_BY_NAME + crc32(name.encode()) % (_LAST - FIRST_BY_NAME)
