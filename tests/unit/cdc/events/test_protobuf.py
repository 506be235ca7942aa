"""Schemas of Protobuf are those that its compiler takes, records those that its library writes and
Confluent's deserializer reads: recorded by ``python -m tests.oracle.record_protobuf``."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from cdc.errors import SourceError
from cdc.events.form import OURS
from cdc.events.formats.framing import framed
from cdc.events.formats.json_values import json_value
from cdc.events.formats.packing import NoIds, Packing
from cdc.events.formats.protobuf_messages import Message, protobuf_file
from cdc.events.formats.protobuf_reader import protobuf_reader
from cdc.events.formats.protobuf_text import file_text, parsed_file
from cdc.events.formats.protobuf_types import TYPES
from cdc.events.formats.protobuf_writer import protobuf_writer
from cdc.events.schemas.column_numbers import FIRST_BY_NAME
from cdc.events.schemas.event_schemas import event_schema, key_schema
from cdc.events.schemas.schema import BYTES, DOUBLE, INT32, INT64, STRING, Schema, struct
from cdc.protocol.relation import Column, Relation, TypeInfo
from tests.oracle.avro_records import FORMS, Given, given
from tests.oracle.record_protobuf import RECORDED

RECORDS: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
TEXT = TypeInfo(25, "pg_catalog", "text", "base", "text")
INDEX = b"\0"
KEY = struct("s.t.Key", id=INT32)


@pytest.mark.parametrize("one", given(), ids=lambda one: one.name)
def test_schema_and_record_are_the_librarys_to_the_byte(one: Given) -> None:
    theirs = RECORDS[one.name]
    file = protobuf_file(one.schema)
    assert file_text(file) == theirs["document"]
    written = protobuf_writer(file.message)(one.text)
    assert written.hex() == theirs["hex"]
    assert protobuf_reader(theirs["document"])(INDEX + written) == json_value(one.text)


def written(schema: Schema, value: Any) -> tuple[str, bytes]:
    file = protobuf_file(schema)
    return file_text(file), protobuf_writer(file.message)(json.dumps(value).encode())


def document(schema: Schema) -> str:
    return file_text(protobuf_file(schema))


def test_a_record_is_that_of_the_specification() -> None:
    assert written(struct("t", a=INT32), {"a": 150})[1].hex() == "089601"
    assert written(struct("t", a=STRING, b=INT32), {"a": "", "b": -2})[1].hex() == (
        "10feffffffffffffffff01"
    )
    assert written(struct("t", a=INT32.as_optional()), {"a": 0})[1].hex() == "0800"
    assert written(struct("t", a=Schema("array", items=DOUBLE)), {"a": []})[1] == b""
    assert framed(258, protobuf=True) == b"\0\0\0\1\2\0"


VALUES: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "text": (STRING.as_optional(), st.none() | st.text(st.characters(codec="utf-8"))),
    "required text": (STRING, st.text("ab")),
    "numbers": (INT64, st.integers(-(2**63), 2**63 - 1)),
    "small numbers": (Schema("int16", optional=True), st.none() | st.integers(-(2**15), 2**15 - 1)),
    "booleans": (Schema("boolean", optional=True), st.none() | st.booleans()),
    "doubles": (DOUBLE.as_optional(), st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    "arrays": (
        Schema("array", optional=True, items=INT64.as_optional()),
        st.none() | st.lists(st.none() | st.integers(0, 9)),
    ),
    "vectors": (
        Schema("array", optional=True, items=DOUBLE),
        st.none() | st.lists(st.sampled_from([0.0, 1.5, -2.25]), min_size=1),
    ),
    "names": (
        Schema("array", optional=True, items=STRING),
        st.none() | st.lists(st.text("ab"), min_size=1),
    ),
    "maps": (
        Schema("map", optional=True, keys=STRING, values=STRING.as_optional()),
        st.none() | st.dictionaries(st.text("ab"), st.none() | st.text("cd")),
    ),
    "maps by number": (
        Schema("map", keys=Schema("int16"), values=DOUBLE),
        st.lists(st.tuples(st.integers(1, 9), st.floats(1, 2)).map(list)),
    ),
    "structs in arrays": (
        Schema("array", items=struct("s.In", a=INT32, b=STRING.as_optional()).as_optional()),
        st.lists(st.sampled_from([None, {"a": 0, "b": None}, {"a": 7, "b": ""}])),
    ),
    "bytes": (BYTES, st.sampled_from(["", "AA==", "AP8Q"])),
}


@pytest.mark.parametrize("kind", sorted(VALUES))
@drawn(data=st.data())
def test_what_is_written_is_read(kind: str, data: st.DataObject) -> None:
    of, values = VALUES[kind]
    schema, value = struct("s.t", v=of, last=INT32), {"v": data.draw(values), "last": 1}
    text, made = written(schema, value)
    read = protobuf_reader(text)
    assert read(INDEX + made) == value
    for cut in range(len(made)):
        with suppress(ValueError):
            assert read(INDEX + made[:cut]) != value
    with pytest.raises(ValueError, match="first message"):
        read(b"\2\1" + made)


@drawn(number=st.integers(-(2**31), 2**31 - 1) | st.integers(-800_000, 3_000_000))
def test_a_date_is_the_same_day(number: int) -> None:
    known = TYPES["google.type.Date"]
    fields = known.fields(number, {})
    assert known.value(fields) == number
    assert 1 <= fields["month"] <= 12
    assert 1 <= fields["day"] <= 31


@drawn(number=st.integers(-(2**63), 2**63 - 1))
def test_a_timestamp_is_the_same_millisecond(number: int) -> None:
    known = TYPES["google.protobuf.Timestamp"]
    assert known.value(known.fields(number, {})) == number


def table(*columns: tuple[str, int | None]) -> Message:
    """``Value`` of a table that has these columns under these numbers."""
    made = tuple(Column(name, TEXT, -1, not i, attnum=at) for i, (name, at) in enumerate(columns))
    relation = Relation(1, "public", "t", "d", made, (columns[0][0],))
    form = replace(FORMS["ours"], format="protobuf")
    whole = protobuf_file(event_schema(relation, "s", form, relaxed=True)).message
    (value,) = (one for one in whole.messages if one.name == "Value")
    return value


def numbers(message: Message) -> dict[str, int]:
    return {field.original: field.number for field in message.fields}


def test_a_column_keeps_its_number_while_others_come_go_and_are_renamed() -> None:
    assert numbers(table(("id", 1), ("a", 2), ("b", 3))) == {"id": 1, "a": 2, "b": 3}
    dropped = table(("id", 1), ("b", 3), ("c", 4))
    assert (numbers(dropped), dropped.reserved) == ({"id": 1, "b": 3, "c": 4}, (2,))
    renamed = table(("id", 1), ("z", 3), ("c", 4))
    assert numbers(renamed)["z"] == 3


@pytest.mark.parametrize("attnum", [1, 7, None])
def test_a_keys_bytes_are_the_same_whatever_number_its_column_has(attnum: int | None) -> None:
    """They choose its partition: integer keys are replaced by bigint ones under a new number."""
    columns = tuple(
        Column(name, TEXT, -1, True, nullable=False, attnum=at)
        for name, at in (("b", attnum), ("a", 2))
    )
    relation = Relation(1, "public", "t", "d", columns, ("b", "a"))
    form = replace(FORMS["ours"], format="protobuf")
    _, made = written(key_schema(relation, "s", form), {"b": "x", "a": "y"})
    assert made.hex() == "0a0178120179"


def test_null_is_not_taken_for_the_default_of_a_required_field() -> None:
    """Rows from before SET NOT NULL: they would share a key with the row whose key is 0."""
    for form in ("avro", "protobuf"):
        packing = Packing("s.t", replace(OURS, format=form), NoIds(), KEY, struct("s.t.Value"))
        assert packing.key(b'{"id":0}')
        with pytest.raises(SourceError, match="null in a column of its key"):
            packing.key(b'{"id":null}')


def test_columns_whose_attnums_are_not_certain_have_numbers_that_no_other_column_has() -> None:
    found = numbers(table(("id", None), ("a", None)))
    assert all(number >= FIRST_BY_NAME for number in found.values())
    assert numbers(table(("id", None), ("b", None), ("a", None)))["a"] == found["a"]
    assert table(("id", None), ("a", None)).reserved == ()


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (("so-called", "so_called"), ("so_called", "so_called_2")),
        (("a_b", "aB"), ("a_b", "aB_2")),
        (("1st", "_1st"), ("_1st", "_1st_2")),
        (("äöü", 'q"\\\n\u200b'), ("___", "q____")),
    ],
)
def test_names_are_what_protobuf_takes_and_tell_their_own(
    columns: tuple[str, str], names: tuple[str, str]
) -> None:
    fields = tuple((column, STRING) for column in columns)
    schema = Schema("struct", name="my-shop.public.t.Value", fields=fields)
    file = protobuf_file(schema)
    assert file.package == "my_shop.public.t"
    assert tuple(field.name for field in file.message.fields) == names
    again = parsed_file(file_text(file)).message
    assert tuple(field.original for field in again.fields) == columns


def test_messages_have_names_that_no_field_has() -> None:
    array = Schema("array", items=STRING.as_optional())
    text, made = written(struct("s.Key", a=array, Array_a=STRING), {"a": ["x"], "Array_a": "y"})
    assert "message Array_a_ {" in text
    assert protobuf_reader(text)(INDEX + made) == {"a": ["x"], "Array_a": "y"}


def test_a_schema_is_read_however_a_registry_lays_it_out() -> None:
    text = document(struct("s.t", a=struct("s.In", b=INT32), c=Schema("array", items=STRING)))
    other = (
        "// by hand\nsyntax='proto3'; /* of\n s */ package s; option java_package = \"x\";\n"
        "message t { option deprecated = true; message In { int32 b = 1; ; }\n"
        "reserved 9, 11 to 12; reserved 'gone'; .s.t.In a = 1;"
        'repeated string c=2 [deprecated = true, (x.y) = {params: [{key: "["}]}];}'
    )
    made = parsed_file(other)
    assert made.message.reserved == (9, 11, 12)
    plain = parsed_file(text).message
    assert [one.name for one in made.message.fields] == [one.name for one in plain.fields]
    value = {"a": {"b": 5}, "c": ["x", ""]}
    assert (
        protobuf_reader(other)(INDEX + protobuf_writer(plain)(json.dumps(value).encode())) == value
    )
    for broken in ("", "message", "message t {", "message t { Other a = 1; }", "package s;"):
        with pytest.raises(ValueError, match="Protobuf"):
            parsed_file(broken)
