"""Schemas, keys and stand-ins in every mode against those that real Debezium emitted
(tests/oracle)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.events.rows import RowEncoder
from cdc.events.schemas.column_schema import column_schema
from cdc.events.schemas.event_schemas import event_schema, key_schema
from cdc.events.schemas.placeholders import placeholder
from cdc.protocol.relation import Column, Relation, TypeInfo
from tests.support.events.recorded_forms import FORMS, RECORDINGS, SCHEMA_DIFFERENCES, cases


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
