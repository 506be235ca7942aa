"""JSON documents of rows: what comes back out of them, and what an unchanged value takes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cdc.lsn import Position
from jobs.sinks.documents import Document, Stored, filled, parse_position, row_decoder
from jobs.sinks.row_errors import RowsError, RowsUnfitError, raise_together

DECODED: list[tuple[DataType, str, Any]] = [
    (LongType(), "9007199254740993", 9007199254740993),
    (DoubleType(), '"-Infinity"', float("-inf")),
    (DoubleType(), "1.0E300", 1e300),
    (DoubleType(), "3", 3.0),
    (FloatType(), "0.1", 0.10000000149011612),
    (DecimalType(38, 10), '"0E-10"', Decimal("0E-10")),
    (StringType(), '"2024-02-29"', "2024-02-29"),
    (BinaryType(), '"AP8="', b"\x00\xff"),
    (DateType(), '"1500-02-28"', date(1500, 2, 28)),
    (DateType(), '"+12024-02-29"', "+12024-02-29"),
    (TimestampType(), '"2024-02-29T12:00:00.000001Z"', datetime(2024, 2, 29, 12, 0, 0, 1, UTC)),
    (TimestampNTZType(), '"2024-02-29T12:00:00.000001"', datetime(2024, 2, 29, 12, 0, 0, 1)),
    (TimestampType(), '"-0044-03-15T00:00:00.000000Z"', "-0044-03-15T00:00:00.000000Z"),
    (ArrayType(DecimalType(4, 2)), '["1.50",null]', [Decimal("1.50"), None]),
    (ArrayType(LongType()), "[1,null]", [1, None]),
    (StructType().add("at", DateType()), '{"at":"2024-02-29"}', {"at": date(2024, 2, 29)}),
    (DecimalType(4, 2), "null", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), DECODED)
def test_values_of_a_document_become_pythons(kind: DataType, text: str, value: Any) -> None:
    columns = StructType().add("id", LongType()).add("v", kind)
    decode = row_decoder(columns, ("id",))
    row = decode(orjson.loads(f'{{"id":1,"v":{text}}}'), Position(5, 1))
    assert (row.key, row.position) == ((1,), Position(5, 1))
    assert (type(row.values["v"]), row.values["v"]) == (type(value), value)


def test_fields_a_document_lacks_are_null_and_others_are_left_out() -> None:
    columns = StructType().add("id", LongType()).add("added", DateType())
    row = row_decoder(columns, ("id",))({"id": 1, "dropped": 2}, Position(5, 1))
    assert row.values == {"id": 1, "added": None}


ORDINALS = st.integers(0, 2**32 - 1) | st.integers(0, 2**53 - 1) | st.just(2**32)
POSITIONS = st.builds(Position, st.integers(0, 2**64 - 1) | st.integers(0, 3), ORDINALS)


@given(POSITIONS)
def test_positions_survive_their_text(position: Position) -> None:
    assert parse_position(position.hex()) == position


@given(POSITIONS, POSITIONS)
def test_texts_of_positions_are_in_their_order(one: Position, other: Position) -> None:
    assert (one.hex() < other.hex()) == (one < other)


def _document(lsn: int, body: str = '{"id":1,"big":null,"n":2}') -> Document:
    return Document("1", body, Position(lsn, 1), ("big",))


def test_unchanged_fields_are_taken_from_the_store() -> None:
    stored = Stored(Position(4, 1), {"id": 1, "big": 'x"\U0001f600', "n": 1})
    [document] = filled("v", [_document(5)], [stored], [])
    assert orjson.loads(document.body or "") == {"id": 1, "big": 'x"\U0001f600', "n": 2}
    assert document.unchanged == ()


@pytest.mark.parametrize("held", [Position(5, 1), Position(5, 2), Position(6, 0)])
@pytest.mark.parametrize("body", [None, {"id": 1, "big": "x"}])
def test_documents_that_are_not_newer_need_no_filling(
    held: Position, body: dict[str, Any] | None
) -> None:
    assert filled("v", [_document(5)], [Stored(held, body)], []) == []


@pytest.mark.parametrize("stored", [None, Stored(Position(4, 1), None)])
def test_a_document_with_an_unchanged_field_that_nobody_has_is_named(
    stored: Stored | None,
) -> None:
    errors: list[RowsError] = []
    assert filled("v", [_document(5)], [stored], errors) == []
    with pytest.raises(RowsUnfitError, match="view v: 1 changed row") as told:
        raise_together(errors)
    assert [(row.id, row.position) for row in told.value.rows] == [("1", Position(5, 1))]
