"""Avro's documents as Connect's converter writes them, and its encoding by the specification's own
examples. Whole events: ``tests/unit/cdc/columnar/test_formats.py``."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import SourceError
from cdc.events.formats.avro_reader import avro_reader
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.formats.avro_writer import avro_writer
from cdc.events.formats.framing import framed, schema_id_of
from cdc.events.formats.json_schema import json_schema
from cdc.events.formats.subjects import Strategy, subject
from cdc.events.formats.varints import read_zigzag, zigzag
from cdc.events.schemas.event_schemas import SOURCE
from cdc.events.schemas.schema import BYTES, DOUBLE, INT32, INT64, STRING, Schema, struct

DECIMAL = Schema(
    "bytes",
    name="org.apache.kafka.connect.data.Decimal",
    version=1,
    parameters=(("scale", "2"), ("connect.decimal.precision", "10")),
)


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (STRING, "string"),
        (INT64.as_optional(), ["null", "long"]),
        (Schema("int16"), {"type": "int", "connect.type": "int16"}),
        (
            DECIMAL.as_optional(),
            [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 10,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
        ),
        (
            Schema("int32", name="org.apache.kafka.connect.data.Date", version=1),
            {
                "type": "int",
                "connect.version": 1,
                "connect.name": "org.apache.kafka.connect.data.Date",
                "logicalType": "date",
            },
        ),
        (
            Schema("array", items=STRING.as_optional()),
            {"type": "array", "items": ["null", "string"]},
        ),
        (
            Schema("map", keys=STRING, values=STRING.as_optional()),
            {"type": "map", "values": ["null", "string"]},
        ),
        (
            Schema("map", keys=Schema("int16"), values=DOUBLE),
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "MapEntry",
                    "namespace": "io.confluent.connect.avro",
                    "fields": [
                        {"name": "key", "type": {"type": "int", "connect.type": "int16"}},
                        {"name": "value", "type": "double"},
                    ],
                },
            },
        ),
    ],
)
def test_a_schema_is_as_connects_converter_writes_it(schema: Schema, document: Any) -> None:
    assert json.loads(avro_schema(schema)) == document


def test_a_record_tells_connects_name_and_each_field_that_may_be_null_its_default() -> None:
    inner = struct("shop.public.t.Value", a=INT32, b=STRING.as_optional()).as_optional()
    envelope = struct("shop.public.t.Envelope", 2, before=inner, after=inner)
    document = json.loads(avro_schema(envelope))
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "string"], "default": None},
        ],
        "connect.name": "shop.public.t.Value",
    }
    assert document == {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.t",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
        ],
        "connect.version": 2,
        "connect.name": "shop.public.t.Envelope",
    }


def test_a_default_stands_first_in_its_union() -> None:
    fields = {field["name"]: field for field in json.loads(avro_schema(SOURCE))["fields"]}
    assert fields["snapshot"]["default"] == "false"
    first, second = fields["snapshot"]["type"]
    assert (first["connect.name"], second) == ("io.debezium.data.Enum", "null")


def named(name: str, *fields: str) -> Schema:
    return Schema("struct", name=name, fields=tuple((field, INT32) for field in fields))


def test_names_have_letters_digits_and_underscores_and_tell_their_own() -> None:
    document = json.loads(avro_schema(named("my-shop.public.1st.Value", "so-called")))
    assert (document["namespace"], document["name"]) == ("my_shop.public._1st", "Value")
    assert document["fields"] == [
        {"name": "so_called", "type": "int", "headwater.name": "so-called"}
    ]
    with pytest.raises(SourceError, match="columns a-b and a_b are both called a_b"):
        avro_schema(named("s.t", "a-b", "a_b"))


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        *[(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (-64, "7f"), (64, "8001")],
        *[(2**63 - 1, ""), (-(2**63), "")],
    ],
)
def test_numbers_are_those_of_the_specification(number: int, octets: str) -> None:
    made = zigzag(number)
    assert read_zigzag(made, 0) == (number, len(made))
    if octets:
        assert made.hex() == octets


def test_a_record_is_that_of_the_specification() -> None:
    schema = struct("test", a=INT64, b=STRING)
    assert avro_writer(schema)(b'{"a":27,"b":"foo"}').hex() == "3606666f6f"
    assert avro_writer(Schema("array", items=INT64))(b"[3,27]").hex() == "04063600"


@pytest.mark.parametrize("text", ["-0", "1e+20", '"NaN"', '"-Infinity"', "0.1", "16777217"])
def test_floats_keep_what_they_can_hold(text: str) -> None:
    for kind in ("float", "double"):
        schema = struct("s.t", v=Schema(kind))
        written = avro_writer(schema)(b'{"v":%b}' % text.encode())
        found = avro_reader(avro_schema(schema))(written)["v"]
        given_ = float(json.loads(text))
        if isinstance(found, str):
            assert found == json.loads(text)
        else:
            assert math.copysign(1, found) == math.copysign(1, -0.0 if text == "-0" else given_)
            assert found == pytest.approx(given_, rel=1e-6)


VALUES: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "text": (STRING.as_optional(), st.none() | st.text(st.characters(codec="utf-8"))),
    "numbers": (INT64, st.integers(-(2**63), 2**63 - 1)),
    "arrays": (Schema("array", items=INT64.as_optional()), st.lists(st.none() | st.integers(0, 9))),
    "maps": (
        Schema("map", keys=STRING, values=STRING.as_optional()),
        st.dictionaries(st.text("ab"), st.none() | st.text("cd")),
    ),
    "bytes": (BYTES, st.sampled_from(["", "AA==", "AP8Q"])),
}


@pytest.mark.parametrize("kind", sorted(VALUES))
@given(data=st.data())
def test_what_is_written_is_read(kind: str, data: st.DataObject) -> None:
    of, values = VALUES[kind]
    schema, value = struct("s.t", v=of), {"v": data.draw(values)}
    written = avro_writer(schema)(json.dumps(value).encode())
    assert avro_reader(avro_schema(schema))(written) == value
    for cut in range(len(written)):
        with pytest.raises(ValueError, match="no record of its schema"):
            avro_reader(avro_schema(schema))(written[:cut])


def test_a_json_schema_names_types_as_connects_converter_does() -> None:
    schema = struct("s.t.Value", 1, a=INT32, b=DECIMAL.as_optional())
    assert json.loads(json_schema(schema)) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "connect.type": "int32", "connect.index": 0},
            "b": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "string",
                        "connect.type": "bytes",
                        "title": "org.apache.kafka.connect.data.Decimal",
                        "connect.version": 1,
                        "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    },
                ],
                "connect.index": 1,
            },
        },
        "required": ["a"],
        "title": "s.t.Value",
        "connect.version": 1,
    }


def test_a_frame_is_a_zero_and_the_id() -> None:
    assert framed(258) == b"\0\0\0\1\2"
    assert schema_id_of(framed(258) + b"x") == 258
    assert schema_id_of(b'{"id":1}') is None
    assert schema_id_of(b"\0\0") is None


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        ("TopicNameStrategy", "shop.public.t-value"),
        ("RecordNameStrategy", "shop.public.t.Envelope"),
        ("TopicRecordNameStrategy", "shop.public.t-shop.public.t.Envelope"),
    ],
)
def test_subjects_are_named_by_confluents_strategies(strategy: Strategy, name: str) -> None:
    assert subject(strategy, "shop.public.t", "value", "shop.public.t.Envelope") == name
