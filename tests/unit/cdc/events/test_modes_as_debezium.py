"""Values and schemas in every mode against those that real Debezium emitted (tests/oracle).

Each recorded form combines modes so that every mode occurs with all types, read in a snapshot and
streamed. Ours are equal to both, but for the differences listed here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from cdc.columnar.tuples import Column as Cells
from cdc.columnar.values import column_to_json
from cdc.config.events import Events
from cdc.events.form import DEBEZIUM, NAMES, Form
from cdc.events.rows import RowEncoder
from cdc.events.schemas.column_schema import column_schema
from cdc.events.schemas.event_schemas import event_schema, key_schema
from cdc.events.schemas.placeholders import placeholder
from cdc.events.values.encoder import column_encoder, encoder
from cdc.protocol.relation import Column, Relation, TypeInfo
from tests.unit.cdc.events.test_values_as_debezium import (
    BOX,
    DIMENSIONS,
    INFINITY,
    LENGTH,
    MIDNIGHT,
    OMITTED,
    REPLACED,
    SCALE,
    type_info,
)

ORACLE = Path(__file__).parents[3] / "oracle"
RECORDINGS = [
    json.loads((ORACLE / name).read_text(encoding="utf-8"))
    for name in ("debezium_forms.json", "debezium_extension_forms.json")
]
FORMS: dict[str, Form] = {
    name: Events.model_validate({"schemas": True, **modes}).form_with(())
    for name, modes in RECORDINGS[0]["modes"].items()
}
CALENDAR = "the snapshot has another date than the stream"
RANGE = "the number overflows"

# (declaration, PostgreSQL's text) -> (why, our JSON in the modes that have it)
DIFFERENCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("name", "n"): (REPLACED, '"n"'),
    ("timetz", "12:00:00+05:30:15"): (REPLACED, '"06:29:45Z"'),
    ("numeric[]", "{1.10,NaN}"): (
        REPLACED,
        '["1.10","NAN"]',
        '[1.10,"NaN"]',
        '[{"scale":1,"value":"Cw=="},null]',
    ),
    ("bit(3)[]", "{101}"): (REPLACED, '["BQ=="]'),
    ("bit(1)[]", "{1,0}"): (REPLACED, "[true,false]"),
    ("box[]", "{(3,4),(1,2);(3,4),(1,2)}"): (REPLACED, f"[{BOX},{BOX}]"),
    ("date", "infinity"): (INFINITY, '"infinity"', "2147483647"),
    ("date", "-infinity"): (INFINITY, '"-infinity"', "-2147483648"),
    ("timestamp", "infinity"): (INFINITY, '"infinity"', "9223372036854775807"),
    ("timestamp", "-infinity"): (INFINITY, '"-infinity"', "-9223372036854775808"),
    ("interval", "infinity"): (INFINITY, '"infinity"', "9223372036854775807"),
    ("timestamp", "294276-12-31 23:59:59.999999"): (RANGE, "null"),
    ("date", "0044-03-15 BC"): (CALENDAR, '"-0043-03-15Z"', "-735160"),
    ("date", "1582-10-10"): (CALENDAR, '"1582-10-10Z"', "-141432"),
    ("date", "4713-01-01 BC"): (CALENDAR, '"-4712-01-01Z"', "-2440550"),
    ("time", "24:00:00"): (MIDNIGHT, '"24:00:00Z"'),
    ("varbit", "1"): (LENGTH, '"1"'),
    ("varbit", "101"): (LENGTH, '"101"'),
    ("varbit", "100000001"): (LENGTH, '"100000001"'),
    ("varbit", "0001"): (LENGTH, '"0001"'),
    ("varbit(5)", "101"): (LENGTH, '"101"'),
    ("numeric(5,-2)", "12300"): (SCALE, '"12300"', '"ew=="'),
    ("numeric(5,-2)", "-100000"): (SCALE, '"-100000"', '"/Bg="'),
    ("int4[]", "{{1,2},{3,4}}"): (DIMENSIONS, "[1,2,3,4]"),
    ("text[]", "{{a,b},{c,NULL}}"): (DIMENSIONS, '["a","b","c",null]'),
    ("tsquery", "'a' & 'b'"): (OMITTED, "\"'a' & 'b'\""),
    ("int4multirange", "{[1,5),[7,9)}"): (OMITTED, '"{[1,5),[7,9)}"'),
    ("pair", "(1,x)"): (OMITTED, '"(1,x)"'),
    ("pg_lsn", "0/16B3748"): (OMITTED, '"0/16B3748"'),
    ("regclass", "pg_class"): (OMITTED, '"pg_class"'),
    ("jsonpath", '$."a"'): (OMITTED, '"$.\\"a\\""'),
    ("name[]", "{a}"): (OMITTED, '["a"]'),
    ("positive[]", "{1}"): (OMITTED, "[1]"),
    ("price[]", "{1.50}"): (OMITTED, '["1.50"]', '["AJY="]', "[1.50]"),
    ("money[]", "{$1.50}"): (OMITTED, '["1.50"]', '["AJY="]', "[1.50]"),
    ("interval[]", "{P1D}"): (OMITTED, '["P0Y0M1DT0H0M0S"]', "[86400000000]"),
    ("varbit[]", "{101}"): (OMITTED, '["101"]'),
    ("point[]", '{"(1,2)"}'): (
        OMITTED,
        '[{"x":1,"y":2,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}]',
    ),
    ("xml[]", "{<a/>}"): (OMITTED, '["<a/>"]'),
    ("pair[]", '{"(1,x)"}'): (OMITTED, '["(1,x)"]'),
}


class Recorded(NamedTuple):
    """One value in one form; None where Debezium left the column out, or stopped."""

    form: str
    declaration: str
    type: TypeInfo
    typmod: int
    text: str
    stream: str | None
    snapshot: str | None


def cases() -> Iterator[tuple[dict[str, Any], TypeInfo, str, dict[str, Any]]]:
    for recording in RECORDINGS:
        for case in recording["cases"]:
            for form, found in case["forms"].items():
                yield case, type_info(case["type"]), form, found


def recorded() -> Iterator[Recorded]:
    for case, kind, form, found in cases():
        of_snapshot = found.get("snapshot", found["stream"])
        for text, *seen in zip(case["texts"], found["stream"], of_snapshot, strict=True):
            yield Recorded(form, case["declaration"], kind, case["typmod"], text, *seen)


RECORDED = list(recorded())


def ours(value: Recorded) -> str:
    encode = encoder(value.type, value.typmod, FORMS[value.form])
    text = value.text.encode()
    return (text if encode is None else encode(text)).decode()


def meaning(value: Recorded, document: str | None) -> Any:
    """The parsed JSON, its numbers by value: single, double, or whole."""
    if document is None:
        return OMITTED
    base = value.type.element.base if value.type.element else value.type.base
    if base == "float4":
        return json.loads(document, parse_int=_single, parse_float=_single)
    is_double = base in ("float8", "numeric", "money")
    return json.loads(document, parse_int=float if is_double else int)


def _single(text: str) -> bytes:
    return struct.pack("f", float(text))


_OF_NO_VALUE = ("format", "schemas", "unavailable.value.placeholder", "content", "add.fields",
                "delete.tombstone.handling.mode")  # fmt: skip


def test_every_mode_of_every_setting_was_recorded() -> None:
    for name in NAMES:
        seen = {modes.get(name) for modes in RECORDINGS[0]["modes"].values()} - {None}
        if name not in _OF_NO_VALUE:
            wanted = Events.model_fields[NAMES[name]].annotation
            assert wanted is not None
            assert seen == set(wanted.__args__)


def test_the_preset_is_what_the_connector_says_its_defaults_are() -> None:
    told = RECORDINGS[0]["defaults"]
    form = Events(preset="debezium").form_with(())
    assert form == DEBEZIUM
    assert told["time.precision.mode"] == form.times
    assert told["decimal.handling.mode"] == form.decimals
    assert told["binary.handling.mode"] == form.binaries
    assert told["interval.handling.mode"] == form.intervals
    assert told["hstore.handling.mode"] == form.hstores
    assert told["unavailable.value.placeholder"] == form.placeholder
    assert told["skipped.operations"] == "".join(form.skipped)
    assert told["tombstones.on.delete"] == str(form.tombstones).lower()


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_debeziums_in_snapshot_and_stream_or_a_listed_difference(form: str) -> None:
    for value in RECORDED:
        if value.form != form:
            continue
        made = meaning(value, ours(value))
        if any(made != meaning(value, theirs) for theirs in (value.stream, value.snapshot)):
            _, *expected = DIFFERENCES.get((value.declaration, value.text), ("",))
            assert ours(value) in expected, f"{value}: {ours(value)}"


def test_every_listed_difference_is_one() -> None:
    seen = {
        (value.declaration, value.text, ours(value))
        for value in RECORDED
        if meaning(value, ours(value)) != meaning(value, value.stream)
        or meaning(value, ours(value)) != meaning(value, value.snapshot)
    }
    listed = {(*of, one) for of, (_, *each) in DIFFERENCES.items() for one in each}
    assert listed == seen


@pytest.mark.parametrize("form", FORMS)
def test_a_recorded_value_is_the_same_from_each_of_the_three_encoders(form: str) -> None:
    for value in RECORDED:
        if value.form != form:
            continue
        text, made = value.text.encode(), ours(value).encode()
        of_snapshot = column_encoder(value.type, value.typmod, FORMS[form])
        assert (of_snapshot([text]) if of_snapshot else [text]) == [made]
        of_stream = column_to_json(value.type, value.typmod, FORMS[form])
        json_ = of_stream(Cells(pa.array([text], pa.binary()), None, None))
        assert json_.lead + json_.cells[0].as_py() + json_.trail == made


# Columns that Debezium leaves out have a schema all the same, and these another one.
SCHEMA_DIFFERENCES = {
    "varbit": "text of 0 and 1 keeps the length",
    "varbit(5)": "text of 0 and 1 keeps the length",
    "numeric(5,-2)": "a negative scale is negative",
    "bit(3)[]": "an array is an array",
    "bit(1)[]": "an array is an array",
    "mood[]": "an element may be NULL",
    "tsvector[]": "an element may be NULL",
}


def test_the_schema_of_a_column_is_debeziums_to_the_byte_or_a_listed_difference() -> None:
    differing = set()
    for case, kind, form, found in cases():
        column = Column("v", kind, case["typmod"], False, True)
        made = {**column_schema(column, FORMS[form]).document(), "field": "v"}
        if found["schema"] is not None and json.dumps(made) != json.dumps(found["schema"]):
            differing.add(case["declaration"])
    assert differing == set(SCHEMA_DIFFERENCES)


def extra(form: str, table: str) -> dict[str, Any]:
    (found,) = (
        one["events"]
        for one in RECORDINGS[0]["extras"]
        if (one["form"], one["table"]) == (form, table)
    )
    return dict(found)


def _base(name: str, element: TypeInfo | None = None) -> TypeInfo:
    kind = "array" if element else "base"
    return TypeInfo(1, "pg_catalog", name, kind, "array" if element else name, element=element)


_CENTS = (10 << 16 | 2) + 4
KEYED = (
    *(("d", "date", -1), ("n", "numeric", _CENTS), ("z", "timestamptz", -1), ("t", "time", -1)),
    *(("b", "bytea", -1), ("u", "uuid", -1), ("f", "float8", -1), ("i", "interval", -1)),
    *(("s", "timestamp", -1), ("v", "varchar", 9), ("w", "numeric", -1)),
)
KEY = [
    *(b"2024-02-29", b"1.50", b"2024-02-29 12:00:00.5+00", b"12:34:56.7", b"\\x00ff"),
    *(b"550e8400-e29b-41d4-a716-446655440000", b"1.5", b"P1D", b"2024-02-29 12:00:00"),
    *(b"a", b"1.25"),
]


@pytest.mark.parametrize("form", FORMS)
def test_keys_of_every_kind_are_debeziums_with_their_schemas(form: str) -> None:
    source, found = f"oracle_forms_{form}", extra(form, "keyed")
    columns = tuple(Column(n, _base(kind), typmod, True, False) for n, kind, typmod in KEYED)
    relation = Relation(1, "public", "keyed", "d", columns, tuple(n for n, *_ in KEYED))
    (number, payload), (of_value, _) = found["records"][0]
    assert json.dumps(key_schema(relation, source, FORMS[form]).document()) == json.dumps(
        found["schemas"][number]
    )
    made = RowEncoder(relation, FORMS[form], source).key(list(KEY))
    assert made is not None
    assert json.loads(made) == {
        "schema": found["schemas"][number],
        "payload": json.loads(payload),
    }
    event = event_schema(relation, source, FORMS[form]).document()
    assert_like(event, found["schemas"][of_value])


REQUIRED = (
    *(("id", "int4", -1), ("a", "int4", -1), ("t", "text", -1), ("d", "date", -1)),
    *(("s", "timestamp", -1), ("z", "timestamptz", -1), ("n", "numeric", _CENTS)),
    *(("w", "numeric", -1), ("b", "bytea", -1), ("l", "bool", -1), ("u", "uuid", -1)),
    *(("j", "jsonb", -1), ("i", "interval", -1), ("ar", "int4[]", -1), ("x", "text", -1)),
    *(("y", "int4", -1), ("f", "float8", -1), ("ti", "time", -1), ("tz", "timetz", -1)),
    *(("bi", "bit", 3), ("p", "point", -1)),
)


def assert_like(made: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The same but for our fields of ``source``."""
    fields = [dict(field) for field in made["fields"]]
    (source,) = (field for field in fields if field["field"] == "source")
    source["fields"] = source["fields"][: len(source["fields"]) - 4]
    assert json.dumps({**made, "fields": fields}) == json.dumps(theirs)


@pytest.mark.parametrize("form", FORMS)
def test_the_event_of_a_table_has_debeziums_schema_without_its_defaults(form: str) -> None:
    source, found = f"oracle_forms_{form}", extra(form, "required")
    columns = tuple(
        Column(n, _of(kind), typmod, n == "id", n == "y") for n, kind, typmod in REQUIRED
    )
    theirs = found["schemas"][found["records"][0][1][0]]
    for image in theirs["fields"][:2]:
        for field in image["fields"]:
            field.pop("default", None)  # with one, readers take null for it
    full = Relation(1, "public", "required", "f", columns, ("id",))
    assert_like(event_schema(full, source, FORMS[form]).document(), theirs)
    before, after = theirs["fields"][:2]
    assert {field["optional"] for field in after["fields"]} == {False, True}
    by_key = Relation(1, "public", "required", "d", columns, ("id",))
    made = event_schema(by_key, source, FORMS[form]).document()["fields"]
    assert made[1] == after
    assert made[0]["name"] == f"{source}.public.required.Before"
    assert [field["optional"] for field in made[0]["fields"]] == [False] + [True] * 20
    assert before["name"] == after["name"]


def _of(kind: str) -> TypeInfo:
    return _base(f"_{kind[:-2]}", _base(kind[:-2])) if kind.endswith("[]") else _base(kind)


TOASTED = {
    **{"t": "text", "b": "bytea", "j": "jsonb", "n": "numeric", "v": "varbit", "nn": "text"},
    **{"ta": "text[]", "ia": "int4[]", "la": "int8[]", "ua": "uuid[]", "fa": "float8[]"},
    **{"da": "date[]", "na": "numeric[]", "ba": "bytea[]", "sa": "timestamp[]"},
}


@pytest.mark.parametrize("form", FORMS)
def test_what_stands_for_an_unchanged_value_fits_its_type_as_debeziums_does(form: str) -> None:
    """Where it has null, which is a value, there may be something that tells."""
    _, (_, payload) = extra(form, "toast")["records"][1]
    theirs = json.loads(payload)["after"]
    for name, kind in TOASTED.items():
        made = placeholder(Column(name, _of(kind), -1, False, True), FORMS[form])
        assert theirs[name] in (None, json.loads(made)), name
