"""Our values against those that real Debezium emitted for the same bytes (tests/oracle).

Equal, but for the differences listed here: in each Debezium loses, invents or omits the value.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from cdc.columnar.tuples import Column
from cdc.columnar.values import column_to_json
from cdc.events.values.encoder import column_encoder, encoder
from cdc.protocol.relation import TypeInfo

ORACLE = Path(__file__).parents[3] / "oracle"

OMITTED = "the column is omitted"
REPLACED = "the value is replaced by null"
INFINITY = "infinity becomes a date, or nothing"
LENGTH = "the number of bits is lost"
MIDNIGHT = "the end of the day becomes its start"
DIMENSIONS = "dimensions or bounds are lost"
SCALE = "two thousand digits that the value does not have"

BOX = (
    '{"wkb":"AQMAAAABAAAABQAAAAAAAAAAAAhAAAAAAAAAEEAAAAAAAAAIQAAAAAAAAABAAAAAAAAA8D8AAAAAAAAAQAAA'
    'AAAAAPA/AAAAAAAAEEAAAAAAAAAIQAAAAAAAABBA","srid":null,"extensions":{"type":"box"}}'
)

# (declaration, PostgreSQL's text) -> (why, our JSON)
DIFFERENCES: dict[tuple[str, str], tuple[str, str]] = {
    ("name", "n"): (REPLACED, '"n"'),
    ("timetz", "12:00:00+05:30:15"): (REPLACED, '"06:29:45Z"'),
    ("numeric[]", "{1.10,NaN}"): (REPLACED, '["1.10","NAN"]'),
    ("bit(3)[]", "{101}"): (REPLACED, '["BQ=="]'),
    ("bit(1)[]", "{1,0}"): (REPLACED, "[true,false]"),
    ("box[]", "{(3,4),(1,2);(3,4),(1,2)}"): (REPLACED, f"[{BOX},{BOX}]"),
    ("date", "infinity"): (INFINITY, '"infinity"'),
    ("date", "-infinity"): (INFINITY, '"-infinity"'),
    ("timestamp", "infinity"): (INFINITY, '"infinity"'),
    ("timestamp", "-infinity"): (INFINITY, '"-infinity"'),
    ("interval", "infinity"): (INFINITY, '"infinity"'),
    ("time", "24:00:00"): (MIDNIGHT, '"24:00:00Z"'),
    ("varbit", "1"): (LENGTH, '"1"'),
    ("varbit", "101"): (LENGTH, '"101"'),
    ("varbit", "100000001"): (LENGTH, '"100000001"'),
    ("varbit", "0001"): (LENGTH, '"0001"'),
    ("varbit(5)", "101"): (LENGTH, '"101"'),
    ("numeric(5,-2)", "12300"): (SCALE, '"12300"'),
    ("numeric(5,-2)", "-100000"): (SCALE, '"-100000"'),
    ("int4[]", "{{1,2},{3,4}}"): (DIMENSIONS, "[[1,2],[3,4]]"),
    ("int4[]", "[0:1]={1,2}"): (DIMENSIONS, '"[0:1]={1,2}"'),
    ("text[]", "{{a,b},{c,NULL}}"): (DIMENSIONS, '[["a","b"],["c",null]]'),
    ("tsquery", "'a' & 'b'"): (OMITTED, "\"'a' & 'b'\""),
    ("int4multirange", "{[1,5),[7,9)}"): (OMITTED, '"{[1,5),[7,9)}"'),
    ("pair", "(1,x)"): (OMITTED, '"(1,x)"'),
    ("pg_lsn", "0/16B3748"): (OMITTED, '"0/16B3748"'),
    ("regclass", "pg_class"): (OMITTED, '"pg_class"'),
    ("jsonpath", '$."a"'): (OMITTED, '"$.\\"a\\""'),
    ("name[]", "{a}"): (OMITTED, '["a"]'),
    ("positive[]", "{1}"): (OMITTED, "[1]"),
    ("price[]", "{1.50}"): (OMITTED, '["1.50"]'),
    ("money[]", "{$1.50}"): (OMITTED, '["1.50"]'),
    ("interval[]", "{P1D}"): (OMITTED, '["P0Y0M1DT0H0M0S"]'),
    ("varbit[]", "{101}"): (OMITTED, '["101"]'),
    ("point[]", '{"(1,2)"}'): (
        OMITTED,
        '[{"x":1,"y":2,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}]',
    ),
    ("xml[]", "{<a/>}"): (OMITTED, '["<a/>"]'),
    ("pair[]", '{"(1,x)"}'): (OMITTED, '["(1,x)"]'),
}


class Recorded(NamedTuple):
    """One value as PostgreSQL streamed it and as Debezium emitted it."""

    declaration: str
    type: TypeInfo
    typmod: int
    text: str
    debezium: str | None
    """JSON; None when the event did not have the column."""


def type_info(structure: dict[str, Any]) -> TypeInfo:
    """A recorded type."""
    element, labels = structure["element"], tuple(structure.get("labels", ()))
    return TypeInfo(
        **structure
        | {"oid": 0, "element": type_info(element) if element else None, "labels": labels}
    )


def recorded() -> list[Recorded]:
    """Every recorded value."""
    return [
        Recorded(
            case["declaration"],
            type_info(case["type"]),
            case["typmod"],
            value["text"],
            value["debezium"],
        )
        for name in ("debezium_values.json", "debezium_extension_values.json")
        for case in json.loads((ORACLE / name).read_text(encoding="utf-8"))["cases"]
        for value in case["values"]
    ]


RECORDED = recorded()


def label(value: Recorded) -> str:
    return f"{value.declaration}: {value.text[:40]!r}"


def ours(value: Recorded) -> str:
    """What our encoder makes of the recorded bytes."""
    encode = encoder(value.type, value.typmod)
    text = value.text.encode()
    return (text if encode is None else encode(text)).decode()


@pytest.mark.parametrize("value", RECORDED, ids=label)
def test_a_recorded_value_is_the_same_from_each_of_the_three_encoders(value: Recorded) -> None:
    text = value.text.encode()
    of_snapshot = column_encoder(value.type, value.typmod)
    assert (of_snapshot([text]) if of_snapshot else [text]) == [ours(value).encode()]
    of_stream = column_to_json(value.type, value.typmod)
    json = of_stream(Column(pa.array([text], pa.binary()), None, None))
    assert json.lead + json.cells[0].as_py() + json.trail == ours(value).encode()


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
