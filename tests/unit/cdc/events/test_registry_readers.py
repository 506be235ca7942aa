"""Events whose schemas are in a registry are read back as the default form has them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from cdc.config.registry import Registry
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM, OURS, Form, Format
from cdc.events.formats.json_values import json_value
from cdc.events.formats.packing import Packing, packed_schema
from cdc.events.formats.subjects import Role
from cdc.events.readers.columns import ColumnKind, loss, may_be_null
from cdc.events.readers.records import UNREADABLE, Columns
from cdc.events.schemas.event_schemas import key_schema
from cdc.events.schemas.schema import Schema
from cdc.kafka.event_reader import FormReader
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.registry.schemas import Document, SchemaRegistry
from tests.support.events.recorded_values import RECORDED
from tests.unit.cdc.events.test_readers import FORMS, encoded, is_nested, kind_of

FORMATS: tuple[Format, ...] = ("avro", "json-schema", "protobuf")
TEXT = TypeInfo(25, "pg_catalog", "text", "base", "text")
INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
NUMERIC = TypeInfo(1700, "pg_catalog", "numeric", "base", "numeric")
FILLED: dict[str, Any] = {"int64": 7, "int32": 7, "string": "s", "boolean": False}


class Documents:
    """In place of the registry that capture registers with."""

    def __init__(self) -> None:
        self.found: dict[int, Document] = {}

    def id_of(self, _topic: str, _role: Role, _record: str, kind: str, document: str) -> int:
        self.found[len(self.found) + 1] = Document(kind, document)
        return len(self.found)


def table(*columns: Column) -> Relation:
    return Relation(1, "public", "t", "d", (Column("id", INT4, -1, True), *columns), ("id",))


def written(
    form: Form, of: Relation, after: str | None, unchanged: tuple[str, ...] = ()
) -> tuple[bytes, bytes, SchemaRegistry]:
    """Key and value of an event, and the registry that has their schemas."""
    documents, schema, keys = Documents(), packed_schema(of, "s", form), key_schema(of, "s", form)
    packing = Packing("s.public.t", form, documents, keys, schema)
    source = {name: filled(field) for name, field in dict(schema.fields)["source"].fields}
    source |= {"schema_id": "v", "unchanged": list(unchanged) or None}
    event = {name: filled(field) for name, field in schema.fields} | {"op": "u", "source": source}
    text = json.dumps(event).replace('"after": null', f'"after": {after or "null"}')
    settings = Registry(url="http://127.0.0.1:9")
    return (
        packing.key(b'{"id":1}'),
        packing.value(text.encode()),
        SchemaRegistry(settings, documents.found),
    )


def filled(field: Schema) -> Any:
    return None if field.optional else FILLED.get(field.type)


def read(form: Form, columns: Columns, *records: Any, registry: SchemaRegistry) -> Any:
    """The key, and what the default form has as ``after``; by a reader that was sent to a task."""
    reader = FormReader(form, lambda: {"v": columns}, registry)
    of_task = pickle.loads(pickle.dumps(reader.for_tasks()))
    ((key, value, _),) = of_task.raw("s.public.t", [(*records, 3)])
    assert not value.startswith(UNREADABLE), value
    return key, json.loads(value)["after"]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("format", FORMATS)
def test_each_type_is_read_back_from_each_format_in_each_form_or_refused(
    format: Format, name: str
) -> None:
    form = replace(FORMS[name], schemas=True, format=format)
    held, sent = {}, {}
    for number, value in enumerate(RECORDED):
        column = kind_of(value)
        if loss(form, column) or is_nested(value):
            continue  # an array's schema knows of no dimensions
        text = encoded(value, form)
        if text == "null":
            assert column.element or may_be_null(form, column), value
            continue
        held[f"so-called {number}"], sent[f"so-called {number}"] = value, text
    of = table(*(Column(name, one.type, one.typmod, False) for name, one in held.items()))
    image = ",".join(f"{json.dumps(name)}:{text}" for name, text in sent.items())
    key, event, registry = written(form, of, f'{{"id":1,{image}}}')
    columns = {name: kind_of(value) for name, value in held.items()}
    own_key, after = read(form, columns, key, event, registry=registry)
    assert own_key == b'{"id":1}'
    for name, value in held.items():
        ours = json_value(b'{"v":%b}' % encoded(value, OURS).encode())["v"]
        assert is_same(after[name], ours), (value, sent[name], after[name])


def is_same(value: Any, ours: Any) -> bool:
    """Numbers are what they are, with a point or without one."""
    if isinstance(value, dict):
        return value.keys() == ours.keys() and all(is_same(value[k], ours[k]) for k in value)
    if isinstance(value, list):
        return len(value) == len(ours) and all(map(is_same, value, ours))
    if isinstance(value, float) or isinstance(ours, float):
        return repr(float(value)) == repr(float(ours))
    return type(value) is type(ours) and value == ours


@pytest.mark.parametrize("format", FORMATS)
def test_a_value_that_was_left_out_and_a_truncate_are_read(format: Format) -> None:
    form = replace(DEBEZIUM, format=format)
    of = table(Column("v", TEXT, -1, False), Column("n", NUMERIC, (9 << 16 | 2) + 4, False))
    columns = {"v": ColumnKind("text"), "n": ColumnKind("numeric", typmod=(9 << 16 | 2) + 4)}
    image = json.dumps({"id": 1, "v": PLACEHOLDER, "n": None})
    key, value, registry = written(form, of, image, ("v", "n"))
    _, after = read(form, columns, key, value, registry=registry)
    assert after == {"id": 1, "v": PLACEHOLDER, "n": PLACEHOLDER}
    _, value, registry = written(form, of, None)
    assert read(form, columns, None, value, registry=registry) == (None, None)


@pytest.mark.parametrize("digits", [12, 15, 16])
def test_doubles_in_avro_are_read_of_columns_whose_digits_they_keep(digits: int) -> None:
    column = ColumnKind("numeric", typmod=(digits << 16 | 2) + 4)
    form = replace(OURS, format="avro", schemas=True, decimals="double")
    assert bool(loss(form, column)) == (digits > 15)
    assert not loss(replace(form, format="json-schema"), column)
    if digits > 15:
        return
    of = table(Column("n", NUMERIC, column.typmod, False))
    whole = "9" * (digits - 2)
    for number in (f"{whole}.90", f"-{whole}.99", "0.10", "0.00", "-0.07"):
        key, value, registry = written(form, of, f'{{"id":1,"n":{number}}}')
        assert read(form, {"n": column}, key, value, registry=registry)[1]["n"] == number


def test_bytes_that_are_not_of_their_schema_are_no_event_and_another_schema_is_told() -> None:
    form = replace(OURS, format="avro", schemas=True)
    key, value, registry = written(form, table(), '{"id":1}')
    reader = FormReader(form, lambda: {"v": {}}, registry)
    for cut in (value[:-1], value + b"x", b"", b"\0", b"\0\0"):
        ((_, found, _),) = reader.raw("s.public.t", [(key, cut, 3)])
        assert found == UNREADABLE + cut
    other = SchemaRegistry(Registry(url="http://127.0.0.1:9"), {2: Document("AVRO", '"string"')})
    ((_, found, _),) = FormReader(form, lambda: {"v": {}}, other).raw("t", [(None, value, 3)])
    assert found == UNREADABLE + value
