"""Our values against those that real Debezium emitted for the same bytes (tests/oracle).

Equal, but for the differences listed here: in each Debezium loses, invents or omits the value.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from tests.support.events.recorded_values import (
    DIFFERENCES,
    RECORDED,
    Recorded,
    made,
    made_by_column,
)


def label(value: Recorded) -> str:
    return f"{value.declaration}: {value.text[:40]!r}"


def ours(value: Recorded) -> str:
    return made(value.type, value.typmod, value.text)


@pytest.mark.parametrize("value", RECORDED, ids=label)
def test_a_recorded_value_is_the_same_from_each_of_the_three_encoders(value: Recorded) -> None:
    assert made_by_column(value.type, value.typmod, value.text) == [ours(value)] * 2


def meaning(document: str, base: str) -> Any:
    """The parsed JSON; numbers by value, so 1.0E20 is 1e+20; float4 in its own precision."""

    def number(text: str) -> float | bytes:
        return struct.pack("f", float(text)) if base == "float4" else float(text)

    integer = number if base.startswith("float") else int
    return json.loads(document, parse_float=number, parse_int=integer)


@pytest.mark.parametrize("value", RECORDED, ids=label)
def test_a_value_is_what_debezium_emits_or_a_listed_difference(value: Recorded) -> None:
    if (value.declaration, value.text) in DIFFERENCES:
        _, expected = DIFFERENCES[value.declaration, value.text]
        assert ours(value) == expected
        assert expected != value.debezium
    else:
        base = value.type.element.base if value.type.element else value.type.base
        assert value.debezium is not None
        assert meaning(ours(value), base) == meaning(value.debezium, base)


def test_every_listed_difference_was_recorded() -> None:
    assert set(DIFFERENCES) <= {(value.declaration, value.text) for value in RECORDED}


def test_text_of_other_than_numbers_is_debeziums_to_the_byte() -> None:
    """Where JSON leaves no choice but the case of hex digits and the escapes beyond need."""
    for value in RECORDED:
        document = value.debezium
        if value.type.base in ("text", "json", "jsonb", "enum") and "\\u" not in str(document):
            assert ours(value) == document
