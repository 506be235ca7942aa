"""What real Debezium wrote (tests/oracle) is read as the source has it, or the column refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest

from cdc.debezium.lost_columns import _loss
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.readers.columns import ColumnKind
from cdc.events.readers.debezium import DebeziumRecords, TableShape
from cdc.events.readers.left_out import left_out_sign, may_be_left_out
from cdc.events.readers.records import UNREADABLE, payload
from tests.support.events.recorded_forms import FORMS
from tests.support.events.recorded_forms import RECORDED as OF_FORMS
from tests.support.events.recorded_values import RECORDED, made
from tests.unit.cdc.events.test_readers import kind_of
from tests.unit.cdc.events.test_schemas_as_debezium import TOASTED, _of, extra

OTHER: Final = {
    *(("date", "infinity"), ("date", "-infinity"), ("time", "24:00:00")),
    *(("timestamp", "infinity"), ("timestamp", "-infinity"), ("interval", "infinity")),
    *(("timetz", "12:00:00+05:30:15"), ("timestamp", "294276-12-31 23:59:59.999999")),
    *(("numeric[]", "{1.10,NaN}"), ("numeric(10,2)", "NaN"), ("mood[]", "{sad,NULL}")),
    *(("polygon", "((1,1))"), ("polygon", "((1,2),(3,4),(1,2))"), ("polygon", "((0,-0),(-0,0))")),
    *(("int4[]", "{{1,2},{3,4}}"), ("int4[]", "[0:1]={1,2}")),
    ("text[]", "{{a,b},{c,NULL}}"),
}
"""Single values that Debezium has others for, as docs/debezium-topics.md says."""


WORDS: Final = ("NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", PLACEHOLDER)


def recorded() -> Iterator[tuple[Form, Any, str]]:
    for one in RECORDED:
        if one.debezium is not None:
            yield OURS, one, one.debezium
    for value in OF_FORMS:
        if value.stream is not None:
            yield FORMS[value.form], value, value.stream


def read(form: Form, kind: ColumnKind, value: str) -> dict[str, Any] | None:
    """The event of an update; None where it is not read."""
    shape = TableShape("s", {"id": ColumnKind("int4", nullable=False), "v": kind}, ["id"], 1)
    source = '{"sequence":"[\\"1\\",\\"2\\"]","lsn":2,"txId":1,"snapshot":"false"}'
    event = f'{{"before":null,"after":{{"id":1,"v":{value}}},"source":{source},"op":"u"}}'
    _, found = DebeziumRecords(form, [shape]).record(b'{"id":1}', event.encode())
    assert found is not None
    return None if found.startswith(UNREADABLE) else payload(found)


def meaning(kind: ColumnKind, value: Any) -> Any:
    """A value of a float by its bits, of a numeric by its number."""
    if isinstance(value, list):
        return [meaning(kind, one) for one in value]
    base = kind.element or kind.base
    if base in ("float4", "float8") and isinstance(value, int | float):
        return struct.pack("f" if base == "float4" else "d", value)
    is_number = base in ("numeric", "money") and isinstance(value, str) and value not in WORDS
    return Decimal(value) if is_number else value


@pytest.mark.parametrize("nullable", [True, False])
def test_each_recorded_value_is_read_or_its_column_refused_or_the_value_listed(
    nullable: bool,
) -> None:
    other = set()
    for form, value, sent in recorded():
        kind = kind_of(value)._replace(nullable=nullable)
        if _loss(form, kind, is_full=True):
            continue
        event = read(form, kind, sent)
        ours = payload(b'{"v":%b}' % made(value.type, value.typmod, value.text).encode())["v"]
        if event is not None and meaning(kind, event["after"]["v"]) != meaning(kind, ours):
            other.add((value.declaration, value.text))
    of_null = set() if nullable else {("numeric(10,2)", "NaN")}  # where it is never NULL
    assert other == OTHER - of_null


@pytest.mark.parametrize("name", FORMS)
def test_what_stands_for_a_value_that_was_left_out_is_what_debezium_wrote(name: str) -> None:
    _, (_, value) = extra(name, "toast")["records"][1]
    theirs, form = json.loads(value)["after"], FORMS[name]
    for column, declaration in TOASTED.items():
        type_ = _of(declaration)
        kind = ColumnKind(type_.base, type_.kind, -1, type_.element and type_.element.base)
        assert may_be_left_out(kind)
        assert left_out_sign(form, kind) == theirs[column], (column, declaration)
        if theirs[column] is not None:
            told = read(form, kind, json.dumps(theirs[column]))
            assert told is not None
            assert told["source"]["unchanged"] == ["v"]
            assert told["after"]["v"] == PLACEHOLDER
        elif not _loss(form, kind, is_full=True):
            assert "REPLICA IDENTITY FULL" in _loss(form, kind, is_full=False)


def array(element: str, typmod: int = -1) -> ColumnKind:
    return ColumnKind("array", "array", typmod, element)


URL_SAFE = replace(OURS, binaries="base64-url-safe")
SIGNS = [
    *((OURS, ColumnKind(base), PLACEHOLDER) for base in ("varchar", "bpchar", "json", "xml")),
    *((OURS, ColumnKind(base), PLACEHOLDER) for base in ("tsvector", "citext", "ltree")),
    *((OURS, array(base), [PLACEHOLDER]) for base in ("varchar", "bpchar", "json", "jsonb")),
    *((OURS, array(base), None) for base in ("enum", "inet", "timestamptz", "oid", "citext")),
    *((DEBEZIUM, array(base), None) for base in ("time", "oid", "bool", "int2", "numeric")),
    (OURS, ColumnKind("hstore"), f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
    (replace(OURS, hstores="map"), ColumnKind("hstore"), {PLACEHOLDER: PLACEHOLDER}),
    (replace(OURS, hstores="map"), ColumnKind("hstore", "domain"), None),
    (URL_SAFE, ColumnKind("bytea"), None),
    (OURS, ColumnKind("array", "domain", -1, "text"), None),
    (OURS, ColumnKind("vector"), None),
]


@pytest.mark.parametrize(("form", "kind", "sign"), SIGNS)
def test_a_value_that_was_left_out_is_told_only_where_debezium_has_a_constant_for_its_type(
    form: Form, kind: ColumnKind, sign: Any
) -> None:
    assert left_out_sign(form, kind) == sign


def digits(precision: int) -> ColumnKind:
    return ColumnKind("numeric", typmod=(precision << 16 | 2) + 4)


def test_long_numbers_and_bit_strings_may_be_left_out() -> None:
    """Of a numeric that is never NULL null is NaN, or a value that was left out."""
    precise = replace(OURS, decimals="precise")
    assert not _loss(precise, digits(38), is_full=False)
    assert _loss(precise, digits(39), is_full=False)
    assert _loss(precise, digits(39)._replace(nullable=False), is_full=False)
    assert not _loss(precise, digits(39), is_full=True)
    assert not _loss(OURS, ColumnKind("bit", typmod=128), is_full=False)
    assert _loss(OURS, ColumnKind("bit", typmod=20000), is_full=False)
    assert not _loss(OURS, ColumnKind("bit", typmod=20000, nullable=False), is_full=False)


@pytest.mark.parametrize("form", [OURS, *FORMS.values()])
def test_columns_of_which_debezium_never_has_the_value_are_refused(form: Form) -> None:
    lost = [array(base, 3) for base in ("bit", "box", "circle", "point", "polygon")]
    lost += [ColumnKind("oidvector"), ColumnKind("int2vector"), array("time"), array("time", 6)]
    for kind in lost:
        assert _loss(form, kind, is_full=True), kind
    assert not _loss(form, array("time", 3), is_full=True)
